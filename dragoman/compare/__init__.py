"""The lectures' claims, each run on models trained here.

A claim is drawn, and summed up in two sentences made from the numbers.
"""
