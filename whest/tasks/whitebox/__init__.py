"""White-box estimation: predict the mean of every neuron from the weights."""
