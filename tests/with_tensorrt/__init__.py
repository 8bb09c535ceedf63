"""Tests that need TensorRT and a GPU that it supports. Not named after TensorRT, whose package it would hide."""
