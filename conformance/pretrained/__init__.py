"""Trained weights and real sentences: numbers with the outliers that random ones lack."""

from .minilm import LONGEST, copy_parameters, embedded_sentences, requirement, sentences

__all__ = ["LONGEST", "copy_parameters", "embedded_sentences", "requirement", "sentences"]
