"""White-box estimation: predict every neuron's mean from the weights alone."""
