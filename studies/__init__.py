"""The lectures' claims, each run on models trained here.

Each claim gets a figure and a summary of two sentences, made from the numbers. The studies are not
part of the package and use it like any other program; `dragoman compare` runs them in a source
folder.
"""
