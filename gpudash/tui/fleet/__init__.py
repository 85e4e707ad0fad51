"""The screen of many hosts: one model, one app, and its pages."""
