"""A comparison as one page for the browser: text and tables by Jinja2, charts by Observable Plot.

Hands out `page.page`. Knows nothing of how a figure comes about: each is one of `engine.analysis`, `engine.view` or the
tables of `engine.report`; here they are only laid out, and seconds reduced to what a chart can show.
"""
