"""What a worker answers in each of its roles."""

import mmap
import struct
from collections.abc import Callable
from dataclasses import asdict

from whest.cases.prediction import Failure
from whest.config.devices import prepare_precision
from whest.estimator.calling import set_up, tear_down
from whest.estimator.contract import Estimator, SetupContext
from whest.estimator.eager import EagerSession
from whest.estimator.traced import Program, compile_program, estimator_function, trace
from whest.isolation.channel import Message
from whest.isolation.messages import Answer, Arrays, read_mlp, read_spec, write_cost, write_prediction
from whest.isolation.portable import read_program, write_program
from whest.metering.lists import use_prices

Role = Callable[[Message, Arrays], Answer]


def tracer(start: Message) -> Role:
    """Traces the estimator once; it never sees a weight."""
    spec, context = read_spec(start["spec"]), SetupContext(**start["context"])
    use_prices(start["prices"])

    def answer(message: Message, arrays: Arrays) -> Answer:
        estimator = set_up(spec, context)
        if isinstance(estimator, Failure):
            return {"failure": asdict(estimator)}, []
        traced = trace(estimator_function(estimator, context.flop_budget), context)
        if isinstance(traced, Failure):
            return {"failure": asdict(traced)}, []
        try:
            document, constants = write_program(traced.jaxpr)
        except Exception as error:
            return {"failure": asdict(Failure("UNMETERABLE", str(error)))}, []
        finally:
            tear_down(estimator)
        return {"program": document}, constants

    return answer


def evaluator(start: Message) -> Role:
    """Meters and runs a program that came as plain data."""
    context = SetupContext(**start["context"])
    prepare_precision(start["cache"])
    use_prices(start["prices"])
    program: Program | None = None

    def answer(message: Message, arrays: Arrays) -> Answer:
        nonlocal program
        if message["do"] == "load":
            function = read_program(message["program"], arrays)
            if not message["program"]["program"]["outputs"]:
                return {"failure": asdict(Failure("UNMETERABLE", "the program has no output: it returns nothing"))}, []
            compiled = compile_program(lambda *args: function(*args)[0], context)
            if isinstance(compiled, Failure):
                return {"failure": asdict(compiled)}, []
            program = compiled
            return {
                "compile_time_s": compiled.compile_time_s,
                "refused": compiled.refused,
                "cost": write_cost(compiled.cost),
            }, []
        assert program is not None
        return write_prediction(program.predict(read_mlp(message, arrays)))

    return answer


def sealed_evaluator(start: Message) -> Role:
    """The same behind walls, for a program that came in a file; there no compiled programs are kept."""
    return evaluator({**start, "cache": None})


def eager_estimator(start: Message) -> Role:
    """Runs the estimator itself, operation by operation."""
    spec, context = read_spec(start["spec"]), SetupContext(**start["context"])
    prepare_precision(None)
    report = spending_reporter(start["spent"])
    session: EagerSession | None = None
    estimator: Estimator | None = None

    def answer(message: Message, arrays: Arrays) -> Answer:
        nonlocal session, estimator
        if message["do"] == "tear_down":
            tear_down(estimator)
            return {}, []
        if message["do"] == "set_up":
            made = set_up(spec, context)
            if isinstance(made, Failure):
                return {"failure": asdict(made)}, []
            estimator = made
            session = EagerSession(made, context, report)
            return {}, []
        assert session is not None
        if message["do"] == "warm_up":
            return {"answered": session.warm_up_once()}, []
        return write_prediction(session.predict(read_mlp(message, arrays)))

    return answer


def learner_tracer(start: Message) -> Role:
    """Traces a byte learner's three programs; it never sees a byte."""
    from whest.isolation.learner import answer_in_worker

    prepare_precision(None)  # the precision of a product is part of the program, so of its size
    spec = read_spec(start["spec"])
    return lambda message, arrays: answer_in_worker(spec, start["context"])


def learner_runner(start: Message) -> Role:
    """Meters, compiles and runs a byte learner's programs, which came as plain data; it never imports a learner."""
    from whest.isolation.learning import learning_answers

    prepare_precision(None)
    return learning_answers(start["context"])


def lister(start: Message) -> Role:
    """Lists programs that came as plain data; it runs none of them."""
    from whest.isolation.listing import listing_answers

    prepare_precision(None)
    return listing_answers


ROLES: dict[str, Callable[[Message], Role]] = {
    "trace": tracer,
    "evaluate": evaluator,
    "sealed": sealed_evaluator,
    "list": lister,
    "eager": eager_estimator,
    "learner": learner_tracer,
    "learn": learner_runner,
}


def spending_reporter(fd: int) -> Callable[[float], None]:
    """Keeps the FLOPs spent in memory that the host shares, where they outlive this process."""
    shared = mmap.mmap(fd, 8)
    return lambda flops: struct.pack_into("<d", shared, 0, flops)
