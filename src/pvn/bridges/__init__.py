"""Bridges to other simulators and to scripts written for them."""
