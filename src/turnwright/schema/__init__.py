"""The vocabulary of Turnwright: frozen data, no I/O, no clock. Every other room may import this one."""
