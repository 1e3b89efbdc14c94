"""Simulates the controller of Kubernetes' indexed Jobs: k8s_job.py MANIFEST --mount MOUNT=FOLDER [--evict INDEX=FILE]

Runs one Job with local processes in place of pods, by the rules in its manifest: completions,
parallelism, backoffLimitPerIndex, podFailurePolicy. The simulation ignores images, limits and
nodes. An unknown rule in the manifest is an error, so that no rule is silently ignored.

--mount sets the folder of the volume at MOUNT. --evict removes the first pod of an index as soon as FILE exists, with SIGKILL
and the condition that a drained node sets. Prints one JSON document with the outcome of each pod and of the Job.
"""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import yaml

# The implemented rules, and the parts of a Job that do not apply to processes.
OBEYED = {"completionMode", "completions", "parallelism", "backoffLimitPerIndex", "podFailurePolicy", "template"}
OBEYED_OF_PODS = {"restartPolicy", "containers", "volumes"}
OBEYED_OF_CONTAINERS = {"name", "command", "volumeMounts"}
WITHOUT_MEANING_OF_PODS = {"automountServiceAccountToken", "securityContext"}
WITHOUT_MEANING_OF_CONTAINERS = {"image", "resources", "securityContext"}

# The pause in seconds before the first retry of an index. It doubles for each further retry. In a
# cluster, the first pause is ten seconds.
PAUSE = 0.1


class Job:
    """The contents of a manifest."""

    def __init__(self, manifest, mounts):
        spec = manifest["spec"]
        pod = spec["template"]["spec"]
        (container,) = pod["containers"]
        refuse_others("spec", spec, OBEYED)
        refuse_others("a pod's spec", pod, OBEYED_OF_PODS | WITHOUT_MEANING_OF_PODS)
        refuse_others("a container", container, OBEYED_OF_CONTAINERS | WITHOUT_MEANING_OF_CONTAINERS)
        if spec["completionMode"] != "Indexed" or pod["restartPolicy"] != "Never":
            sys.exit("only indexed Jobs whose pods are not restarted are supported")
        mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
        if mounted != set(mounts):
            sys.exit(f"the volumes are at {mounted}, and --mount names {set(mounts)}")
        self.completions = spec["completions"]
        self.parallelism = spec["parallelism"]
        self.backoff_limit = spec["backoffLimitPerIndex"]
        self.rules = spec["podFailurePolicy"]["rules"]
        self.container = container["name"]
        self.command = [word_in(mounts, word) for word in container["command"]]

    def action(self, exit_code, conditions):
        """Returns the action of the first rule that matches a failed pod. If no rule matches, the failure counts."""
        for rule in self.rules:
            codes = rule.get("onExitCodes")
            if codes is not None and codes.get("containerName", self.container) == self.container:
                if (exit_code in codes["values"]) == (codes["operator"] == "In"):
                    return rule["action"]
            for wanted in rule.get("onPodConditions", []):
                if conditions.get(wanted["type"], "False") == wanted.get("status", "True"):
                    return rule["action"]
        return "Count"


def refuse_others(what, fields, known):
    others = set(fields) - known
    if others:
        sys.exit(f"{what} has {sorted(others)}, which this controller does not support")


def word_in(mounts, word):
    for mount, folder in mounts.items():
        if word == mount or word.startswith(mount + "/"):
            return folder + word[len(mount):]
    return word


class Pod:
    """A local process that simulates a pod."""

    def __init__(self, command, index, evict_at):
        self.index, self.evict_at, self.conditions = index, evict_at, {}
        environment = dict(os.environ, JOB_COMPLETION_INDEX=str(index))
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL,
                                        stdout=sys.stderr, start_new_session=True)

    def ended(self):
        """Returns the exit code of the process, as for a container, or None."""
        if self.evict_at and self.evict_at.exists() and self.process.poll() is None:
            self.evict_at = None
            self.conditions["DisruptionTarget"] = "True"
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        code = self.process.poll()
        return 128 - code if code is not None and code < 0 else code


def run(job, evictions):
    """Runs the Job, and returns its pods, the outcome of each index, and its condition."""
    waiting = {index: 0.0 for index in range(job.completions)}
    failures = dict.fromkeys(waiting, 0)
    running, pods, succeeded, failed, most = [], [], [], [], 0
    while waiting or running:
        now = time.monotonic()
        for index in sorted(index for index, since in waiting.items() if since <= now):
            if len(running) < job.parallelism:
                del waiting[index]
                running.append(Pod(job.command, index, evictions.pop(index, None)))
        most = max(most, len(running))
        for pod in list(running):
            code = pod.ended()
            if code is None:
                continue
            running.remove(pod)
            action = None if code == 0 else job.action(code, pod.conditions)
            pods.append({"index": pod.index, "exit_code": code, "action": action})
            failures[pod.index] += action == "Count"
            if action == "FailJob":
                sys.exit("the action FailJob is not supported")
            if action is None:
                succeeded.append(pod.index)
            elif action == "FailIndex" or failures[pod.index] > job.backoff_limit:
                failed.append(pod.index)
            else:
                waiting[pod.index] = time.monotonic() + PAUSE * 2 ** max(failures[pod.index] - 1, 0)
        time.sleep(0.002)
    if evictions:
        sys.exit(f"no pod of {sorted(evictions)} was evicted")
    return {"pods": pods, "succeeded": sorted(succeeded), "failed": sorted(failed), "at_a_time": most,
            "condition": "Failed" if failed else "Complete"}


def pair(text):
    left, right = text.split("=", 1)
    return left, right


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("manifest", type=pathlib.Path)
    arguments.add_argument("--mount", type=pair, action="append", default=[])
    arguments.add_argument("--evict", type=pair, action="append", default=[])
    given = arguments.parse_args()
    job = Job(yaml.safe_load(given.manifest.read_text()), dict(given.mount))
    evictions = {int(index): pathlib.Path(file) for index, file in given.evict}
    print(json.dumps(run(job, evictions)))


main()
