"""The table of jobs. The type of `job=…`, the help and the list of jobs are made from it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Job:
    """One entry of the table: the function of `job=NAME`."""

    target: str
    """`module:function`. It is called with the composed config, the run's folder and the words of the command line."""
    summary: str
    keeps_folder: bool = False
    """Whether the job keeps the folder that Hydra makes for it. The folder of other jobs is removed."""


JOBS = {
    "score": Job("whest.cli.score:score", "score an estimator (the default)", keeps_folder=True),
    "compare": Job("whest.cli.compare:compare", "is A better than B, and how sure", keeps_folder=True),
    "leaderboard": Job("whest.cli.boards:rank", "rank the logged runs of one protocol"),
    "judge": Job("whest.cli.boards:judge", "keep a verdict on a run: disqualified, invalid, reviewed, reinstated"),
    "bake": Job("whest.cli.datasets:bake", "draw MLPs with their truth into a dataset"),
    "merge": Job("whest.cli.datasets:merge", "join the slices of a bake"),
    "combine": Job("whest.cli.datasets:combine", "make one dataset with several splits"),
    "info": Job("whest.cli.datasets:info", "describe a stored dataset, and verify it"),
    "page": Job("whest.cli.page:draw", "make the page of an older run again"),
    "explore": Job("whest.cli.explore:explore", "one MLP of a run, neuron by neuron, on one page"),
    "plot": Job("whest.cli.plot:plot", "a figure of recorded runs for a paper: PDF, SVG or PNG"),
    "log": Job("whest.cli.log:log", "store an older run in MLflow, if no server answered then"),
    "reproduce": Job("whest.cli.reproduce:reproduce", "run a recorded run again: is it the same?", keeps_folder=True),
    "runs": Job("whest.cli.runs:show", "list the last runs, and the best of each protocol"),
    "champion": Job("whest.cli.champion:champion", "the best run of each protocol; run=… challenges it"),
    "gallery": Job("whest.cli.gallery:show", "one page over all runs, sweeps, comparisons and boards"),
    "ui": Job("whest.cli.ui:serve", "open MLflow on the runs so far"),
    "list": Job("whest.cli.catalogue:show", "list jobs, choices, suites and caches"),
    "clean": Job("whest.cli.catalogue:clean", "empty the caches; runs stay"),
    "import": Job("whest.cli.import_reports:import_reports", "WhestBench reports as MLflow runs"),
    "init": Job("whest.cli.init:start", "an estimator of your own to start from"),
    "validate": Job("whest.cli.validate:validate", "does an estimator keep the contract", keeps_folder=True),
    "seal": Job("whest.cli.seal:seal", "an estimator or a learner as one file of data, to be scored without its code"),
    "inspect": Job("whest.cli.inspect:inspect", "what a sealed program computes and carries"),
    "watch": Job("whest.cli.watch:watch", "score a file on a few MLPs after every save"),
    "explain": Job("whest.cli.explain:explain", "where an estimator's error comes from", keeps_folder=True),
    "profile": Job("whest.cli.profile:profile", "where seconds and FLOPs go on this machine", keeps_folder=True),
    "tune": Job("whest.cli.tune:tune", "search an estimator's knobs, and confirm the best", keeps_folder=True),
    "host": Job("whest.cli.host:host", "a contest: take sealed programs in, score them, sign the board"),
    "verify": Job("whest.cli.verify:verify", "check a contest's board; rerun=… runs rows of it again"),
    "doctor": Job("whest.cli.doctor:examine", "is this installation all right"),
}
