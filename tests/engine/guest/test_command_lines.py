"""Kernels with parameters: how they are named, and which are refused."""

from __future__ import annotations

import pytest

from engine.core.errors import UserError
from engine.core.kernel import Kernel
from engine.guest import kernels
from engine.guest.command_lines import PARAMETERS, joined, parted, with_words
from engine.plan import guests, planfile

CONFIG = "CONFIG_PREEMPT_DYNAMIC=y\nCONFIG_HUGETLBFS=y\n"


def of(release: str) -> Kernel:
    return Kernel("k", release, "distro", "/k", "/k/bzImage", "00", options=kernels.options_of(CONFIG))


def test_commas_separate_kernels_and_values_of_parameters() -> None:
    specs = ["6.12:preempt=lazy", "nohz_full=1-3", "host", "mine=/boot/vmlinuz", "6.1"]
    assert joined(specs) == ("6.12:preempt=lazy,nohz_full=1-3", "host", "mine=/boot/vmlinuz", "6.1")
    request = planfile.request({"builds": ["16.3"], "kernels": specs})
    assert request.kernels == joined(specs)
    labels = [kernels.label_of(spec) for spec in (*request.kernels, "own=/boot/vmlinuz:preempt=full")]
    assert labels == ["6.12-preempt-lazy-nohz_full-1-3", "host", "mine", "6.1", "own"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("6.12:preemt=full", r"unknown parameter of a kernel 'preemt' \(nearest: preempt\)"),
        ("6.12:init=/bin/sh", "unknown parameter of a kernel 'init'"),
        ("6.12:preempt=much", "preempt is 'much', and can be none, voluntary, full, lazy$"),
        ("6.12:nohz_full=1;reboot", "nohz_full is '1;reboot', and can be a CPU or a range, such as 1-3$"),
        ("6.12:", "unknown parameter of a kernel ''"),
    ],
)
def test_what_is_no_parameter_is_one_line(spec: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as raised:
        parted(spec)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("release", "word", "message"),
    [
        ("5.10.262", "preempt=full", "preempt=full came with Linux 5.12, and this is 5.10.262"),
        ("6.12.95", "preempt=lazy", "preempt=lazy came with Linux 6.13, and this is 6.12.95"),
        ("7.0.3", "preempt=none", "preempt=none went with Linux 7.0, and this is 7.0.3"),
        ("6.18.1", "nohz_full=1", "nohz_full=1 has no effect: it was built without NO_HZ_FULL"),
        ("6.18.1", "rcu_nocbs=1-3", "rcu_nocbs=1-3 has no effect: it was built without RCU_NOCB_CPU"),
        ("6.18.1", "noautogroup", "noautogroup has no effect: it was built without SCHED_AUTOGROUP"),
        ("6.18.1", "numa_balancing=enable", "has no effect: it was built without NUMA_BALANCING"),
    ],
)
def test_what_a_kernel_would_not_heed_is_refused(release: str, word: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        with_words(of(release), (word,))
    assert with_words(of(release), ()).command_line == ""


def test_options_that_parameters_need_are_read_from_configs() -> None:
    assert {parameter.option for parameter in PARAMETERS.values() if parameter.option} <= set(kernels.OPTIONS)


def test_a_variant_is_booted_with_its_words() -> None:
    assert with_words(of("6.18.1"), ("preempt=lazy", "hugepages=64")).command_line == "preempt=lazy hugepages=64"


def test_parameters_are_for_guests() -> None:
    with pytest.raises(UserError, match="the host is not booted"):
        guests.check(planfile.request({"builds": ["16.3"], "kernels": ["host:preempt=full"]}))
