# SPDX-License-Identifier: Apache-2.0
# What does the package MLRsearch find on simulated devices? Searches are read and written as JSON.
import json
import sys

from MLRsearch import AbstractMeasurer, Config, MeasurementResult, MultipleLossRatioSearch, SearchGoal


class Device(AbstractMeasurer):
    """The device of the file of searches: docs/simulate.md says what its fields mean."""

    def __init__(self, dut):
        self.dut = dut
        self.trials = []

    def measure(self, intended_duration, intended_load):
        dut, load = self.dut, round(intended_load, 6)
        intended = int(intended_duration * load)
        sent = min(intended, int(intended_duration * dut["generator"])) if dut.get("generator") else intended
        received = min(sent, int(intended_duration * dut["capacity"]) + dut.get("buffer", 0))
        if dut.get("every") and (len(self.trials) + 1) % dut["every"] == 0:
            received = max(0, received - dut["loses"])
        low, high = dut.get("band", (0, 0))
        if low <= load < high:
            received = min(received, sent - 1)
        self.trials.append({"duration": intended_duration, "load": intended_load, "intended": intended, "sent": sent, "received": received})
        return MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            intended_count=intended,
            offered_count=sent,
            forwarding_count=received,
        )


def number(load):
    return None if load is None else float(load)


def throughput(result):
    lower = result.relevant_lower_bound
    try:
        return number(result.conditional_throughput)
    except RuntimeError:
        # The package loses the last bit of a sum, and takes the load as lost whole: the greatest loss of its trials is meant.
        return float(lower) * (1.0 - max(next(iter(lower.target_to_stat.values())).long_losses))


def run(search):
    device, goals = Device(search["dut"]), [SearchGoal(**goal) for goal in search["goals"]]
    config = Config()
    config.goals, config.warmup_duration, config.search_duration_max = goals, 0, 1e9
    config.max_load = 1e15
    config.min_load, config.max_load = search["min"], search["max"]
    found = MultipleLossRatioSearch(config).search(device, debug=lambda text: None)
    search["trials"] = device.trials
    search["results"] = [
        {
            "lower": number(found[goal].relevant_lower_bound),
            "upper": number(found[goal].relevant_upper_bound),
            "throughput": throughput(found[goal]),
        }
        for goal in goals
    ]
    return search


json.dump([run(search) for search in json.load(sys.stdin)], sys.stdout)
