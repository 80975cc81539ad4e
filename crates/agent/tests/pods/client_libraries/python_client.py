#!/usr/bin/env python3
"""Opens streams to a Pod with the Python client `kubernetes`.

  python_client.py KUBECONFIG POD CONTAINER PORT CLOSED_PORT

Prints one line for each step. Exit status: 0 if every step has the expected result.
"""
import json
import sys
import time

from kubernetes import client, config
from kubernetes.stream import portforward, stream

NAMESPACE = "default"
TIMEOUT_SECONDS = 60
RESIZE_CHANNEL = 4


def step(subject, holds, found=""):
    print("%s %s" % ("ok  " if holds else "FAIL", subject))
    if not holds:
        print("found: %r" % (found,))
        sys.exit(1)


def execute(core, pod, container, command, **options):
    options = {"stdin": False, "tty": False, "stderr": True, **options}
    return stream(core.connect_get_namespaced_pod_exec, pod, NAMESPACE, container=container, command=command,
                  stdout=True, _preload_content=False, **options)


def output(core, pod, container):
    text = stream(core.connect_get_namespaced_pod_exec, pod, NAMESPACE, container=container, command=["echo", "hi"],
                  stdin=False, stdout=True, stderr=True, tty=False)
    step("a command returns its output", text == "hi\n", text)


def separate_streams(core, pod, container):
    command = ["sh", "-c", "echo out; echo err >&2; exit 3"]
    process = execute(core, pod, container, command)
    process.run_forever(timeout=TIMEOUT_SECONDS)
    streams = (process.read_stdout(), process.read_stderr())
    step("standard error is separate", streams == ("out\n", "err\n"), streams)
    step("a failed command has its exit code", process.returncode == 3, process.returncode)
    process = execute(core, pod, container, ["true"])
    process.run_forever(timeout=TIMEOUT_SECONDS)
    step("a succeeded command has the exit code 0", process.returncode == 0, process.returncode)


def standard_input(core, pod, container):
    process = execute(core, pod, container, ["sh", "-c", "read line; echo got $line"], stdin=True)
    process.write_stdin("hello\n")
    line = process.readline_stdout(timeout=TIMEOUT_SECONDS)
    step("a command reads its input", line == "got hello", line)
    process.run_forever(timeout=TIMEOUT_SECONDS)
    step("a command with input has an exit code", process.returncode == 0, process.returncode)


def terminal(core, pod, container):
    script = 'until [ "$(stty size)" = "33 99" ]; do sleep 0.1; done; read line; echo got $line; exit 5'
    process = execute(core, pod, container, ["sh", "-c", script], stdin=True, tty=True, stderr=False)
    process.write_channel(RESIZE_CHANNEL, json.dumps({"Width": 99, "Height": 33}))
    process.write_stdin("hello\n")
    process.run_forever(timeout=TIMEOUT_SECONDS)
    shown = process.read_stdout()
    step("a terminal has a size and an input", "got hello" in shown, shown)
    step("a command with a terminal has its exit code", process.returncode == 5, process.returncode)


def attached(core, pod, container):
    process = stream(core.connect_get_namespaced_pod_attach, pod, NAMESPACE, container=container, stdin=False,
                     stdout=True, stderr=False, tty=False, _preload_content=False)
    line = process.readline_stdout(timeout=TIMEOUT_SECONDS)
    process.close()
    step("an attached client receives output", line == "tick", line)


def forwarded_port(core, pod, port):
    forwarder = portforward(core.connect_get_namespaced_pod_portforward, pod, NAMESPACE, ports=str(port))
    connection = forwarder.socket(port)
    connection.settimeout(TIMEOUT_SECONDS)
    connection.sendall(b"GET /x HTTP/1.0\r\n\r\n")
    response = b""
    while piece := connection.recv(4096):
        response += piece
    step("a port is forwarded", ('"pod":"%s"' % pod).encode() in response, response)
    step("a forwarded port has no error", forwarder.error(port) is None, forwarder.error(port))


def closed_port(core, pod, port):
    forwarder = portforward(core.connect_get_namespaced_pod_portforward, pod, NAMESPACE, ports=str(port))
    connection = forwarder.socket(port)
    connection.settimeout(TIMEOUT_SECONDS)
    ended = connection.recv(1)
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not forwarder.error(port) and time.monotonic() < deadline:
        time.sleep(0.05)
    step("a closed port has an error", ended == b"" and str(port) in (forwarder.error(port) or ""),
         forwarder.error(port))


def main():
    kubeconfig, pod, container, port, closed = sys.argv[1:]
    config.load_kube_config(kubeconfig)
    core = client.CoreV1Api()
    output(core, pod, container)
    separate_streams(core, pod, container)
    standard_input(core, pod, container)
    terminal(core, pod, container)
    attached(core, pod, container)
    forwarded_port(core, pod, int(port))
    closed_port(core, pod, int(closed))


if __name__ == "__main__":
    main()
