"""Truth: every neuron's mean by sampling, with its error bar."""
