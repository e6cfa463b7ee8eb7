"""Goal: an import ends on a signal wherever it waits, with its count and by that signal, and the same command goes on.
Method: inputs that never end or never begin, a git that hangs, a server that hangs; the signal comes once."""
import os
import signal
import socket
import subprocess

from cli import Client
from harness import Server, check, eq, main, scene, wait_until

ENDS_WITHIN = 60


def _caught(process, number):
    with open(f'/proc/{process.pid}/status', encoding='ascii') as status:
        caught = next(line for line in status if line.startswith('SigCgt:'))
    return int(caught.split()[1], 16) >> (number - 1) & 1


def _ends(client, args, number=signal.SIGTERM, ready=None, stdin=subprocess.DEVNULL, env=None):
    """Its standard error, after one signal to it alone."""
    with subprocess.Popen([client.binary, *args], env=env or client.env, cwd=client.folder, stdin=stdin,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_until(ready or (lambda: _caught(process, number)), 'it waits')
            process.send_signal(number)
            out, said = process.communicate(timeout=ENDS_WITHIN)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(f'{args}: still there {ENDS_WITHIN} s after the signal') from None
    eq((process.returncode, out), (-number, ''), said)
    check('interrupted: ' in said, said)
    return said


@scene
def an_input_without_an_end_or_a_beginning_is_left_on_a_signal(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        os.mkfifo(client.folder / 'fifo')
        for args in (('prewarm', '/dev/zero'), ('prewarm', 'fifo'), ('import', 'mediawiki-xml', 'fifo')):
            _ends(client, args)
        with open('/dev/zero', 'rb') as zero:
            _ends(client, ('prewarm', '-'), stdin=zero)


@scene
def a_git_that_hangs_is_left_on_a_signal(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        for command in ('init -q r', '-C r -c user.name=A -c user.email=a@example.test commit -q --allow-empty -m m'):
            subprocess.run(['git', *command.split()], cwd=client.folder, env=client.env, check=True, timeout=ENDS_WITHIN)
        mark = client.folder / 'hangs'
        (client.folder / 'bin').mkdir()
        git = client.folder / 'bin' / 'git'
        git.write_text(f'#!/bin/sh\ntrap "" TERM PIPE\nexec 1>&-\necho $$ > {mark}\nexec sleep 1000\n')
        git.chmod(0o755)
        env = {**client.env, 'PATH': f'{client.folder}/bin:{client.env["PATH"]}'}
        _ends(client, ('import', 'git', 'r'), ready=lambda: mark.exists() and mark.read_text().strip(), env=env)
        pid = int(mark.read_text())
        check(not os.path.exists(f'/proc/{pid}'), 'git is still there')
        eq(client.json('import', 'git', 'r')[0]['commits'], 1)


@scene
def a_server_that_hangs_is_left_on_a_signal(binary):
    with Server(binary) as server, socket.create_server(('127.0.0.1', 0)) as hangs:
        client = Client(binary, server)
        (client.folder / 'titles').write_text('A\n')
        hangs.settimeout(ENDS_WITHIN)
        accepted = []

        def asked():
            accepted.append(hangs.accept()[0])
            return accepted[-1].recv(4096)
        _ends(client, ('prewarm', 'titles', '--server', f'http://127.0.0.1:{hangs.getsockname()[1]}'), ready=asked)
        for connection in accepted:
            connection.close()


if __name__ == '__main__':
    main()
