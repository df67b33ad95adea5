"""Exams: a learner trained from nothing in a process that never sees the questions, and graded in another."""
