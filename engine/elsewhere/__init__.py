"""Clients on another host: reached over ssh, given the same programs, started and stopped there, their counters read.

Hands out `ClientHost`, an open connection to such a host. Knows no workload by name, no server and no journal: what is
seen of clients there stands in the same counters page as what is seen of those here.
"""
