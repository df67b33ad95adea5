"""The code of the exam's other processes: tracing, training and answering."""
