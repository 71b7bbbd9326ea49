"""A comparison as one page for the browser: text and tables by Jinja2, charts by Observable Plot.

Hands out `page.page`. Computes no figure: each comes from `engine.analysis`, `engine.view` or the tables of
`engine.report`, is laid out here, and seconds are reduced to columns of a chart.
"""
