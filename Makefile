# One word each; everything is in dev.py, which needs nothing but Python.
PYTHON ?= python3

.PHONY: all demo test check quick bench write setup
.DEFAULT_GOAL := demo

all: test

demo test check quick bench write setup:
	$(PYTHON) dev.py $@
