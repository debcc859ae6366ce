"""A persistent, embedded similarity index: have I seen nearly this document before?"""
