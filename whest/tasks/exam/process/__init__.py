"""What runs in the exam's other processes: training and answering."""
