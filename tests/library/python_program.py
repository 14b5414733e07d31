"""What install_test.cpp runs: each promise of the Python module is an assertion."""

import copy
import json
import os
import signal
import threading
import time

import meshbed


def refused(action, kind):
    try:
        action()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


assert "numpy" not in __import__("sys").modules, "numpy is imported on first use"

s = meshbed.load("scenarios/pair.toml")
s["workload.bytes"] = "64K"
s["workload.iterations"] = 3
s["workload.in_place"] = False
assert s["workload.bytes"] == "64K" and s["workload.in_place"] == "false"
assert s.overrides == ["workload.bytes=64K", "workload.iterations=3", "workload.in_place=false"]
refused(lambda: s["workload.root"], KeyError)
refused(lambda: s.set({"workload.bytes": object()}), TypeError)
error = refused(lambda: s.__setitem__("workload.byte", 1), meshbed.InvalidScenario)
assert error.findings[0].severity == "error" and "bytes" in error.findings[0].cause
assert s.set({"workload.bytes": "128K", "seed": 7, "expect.max_over_bound": 100}) is s and s.seed == 7
refused(lambda: meshbed.load("no-such.toml"), meshbed.InvalidScenario)
assert len(copy.deepcopy(s).overrides) == 6 and copy.copy(s).name == "pair"

r = s.run()
assert r.passed and r.failure == "" and r.wrong == 0 and r.checked > 0 and r.busbw > 0
assert r.summary == json.loads(r.json) and r.summary["digest"] == r.digest
assert all(proof.ok for proof in r.proofs)
columns = r.messages
assert len(columns["tries"]) == r.message_count and columns["posted_ps"].dtype == "int64"
refused(lambda: columns["tries"].__setitem__(0, 5), ValueError)
address = columns["posted_ps"].__array_interface__["data"][0]
assert r.messages["posted_ps"].__array_interface__["data"][0] == address, "the columns are not copied"
first = int(columns["posted_ps"][0])
del r
assert int(columns["posted_ps"][0]) == first, "an array keeps its memory"
assert meshbed.load("scenarios/pair.toml").run(messages=False).messages == {}

# Threads run side by side, and one of Python's goes on meanwhile.
digest = s.run().digest
digests, ticks, over = [], [], threading.Event()


def tick():
    while not over.is_set():
        ticks.append(1)
        time.sleep(0.001)


ticker = threading.Thread(target=tick)
ticker.start()
threads = [threading.Thread(target=lambda: digests.append(s.run().digest)) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
over.set()
ticker.join()
assert digests == [digest] * 4 and len(ticks) > 10

# Ctrl-C, a callback that ends the run, one that raises, and a time limit.
long = s.copy().set({"workload.iterations": 100000, "workload.bytes": "1M"})
timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
timer.start()
refused(long.run, KeyboardInterrupt)
timer.join()
seen = []
refused(lambda: long.run(progress=lambda done, total: (seen.append((done, total)), len(seen) < 3)[1]),
        meshbed.RunCancelled)
assert len(seen) == 3
refused(lambda: long.run(progress=lambda done, total: 1 / 0), ZeroDivisionError)
assert "time limit" in str(refused(lambda: long.run(time_limit=0.2), meshbed.RunCancelled))

whole, cut = s.run(), s.copy().set({"topology.rate": "50Gb/s"}).run()
two = meshbed.compare(whole, cut)
assert two.same_data and not two.identical and two.time_ratio > 1 > two.busbw_ratio
assert meshbed.compare(whole, s.run()).identical

guess = meshbed.predict("spark-pair-200g", "all_reduce", 1 << 20)
assert guess.time_s > 0 and abs(sum(guess.parts.values()) - guess.time_s) < 1e-9 and "spark-pair-200g" in meshbed.profiles()
assert "spark-pair-200g" in str(refused(lambda: meshbed.predict("spark-par-200g", "all_reduce", 1), ValueError))
refused(lambda: meshbed.predict("spark-pair-200g", "all_reduces", 1), ValueError)

print("all held")
