"""The lectures' claims, each run on models trained here.

A claim is drawn, and summed up in two sentences made from the numbers. The studies stand beside the
package and use it as anybody could; `dragoman compare` runs them where they are at hand.
"""
