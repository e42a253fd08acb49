"""The labelled set that the gates are measured on: good texts and faults, made anew from a seed."""
