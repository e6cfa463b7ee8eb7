"""Goal: a server takes listening sockets from a service manager, and at its end loses none of who comes there.
Method: the scene is the manager: it binds, hands the sockets over as sd_listen_fds(3) says, and starts one server after
the other with them."""
import os
import signal
import socket
import tempfile

from harness import check, eq, main, scene, wait_until
from inherit_help import Handed, answer, ask, bound, connected, request

PAGE = '/localhost/v1/page/html/A'


@scene
def sockets_are_taken_and_outlive_the_server(binary):
    with tempfile.TemporaryDirectory() as folder, bound(socket.AF_INET, ('127.0.0.1', 0)) as tcp, \
            bound(socket.AF_UNIX, f'{folder}/admin') as unix:
        at, large = tcp.getsockname(), os.urandom(7 << 20)
        with Handed(binary, folder, [tcp, unix], names='web:admin') as first:
            eq(first.line(), f'listening on http://127.0.0.1:{at[1]}')
            eq(first.line(), f'admin on unix:{folder}/admin')
            eq(request(socket.AF_INET, at, 'PUT', f'{PAGE}/1', large)[0], 201)
            eq(request(socket.AF_INET, at, 'GET', '/v1/admin.tokens')[0], 400, 'no admin routes on it')
            eq(request(socket.AF_UNIX, f'{folder}/admin', 'GET', '/v1/admin.tokens')[0], 200)
            with connected(socket.AF_INET, at) as reader:
                ask(reader, 'GET', PAGE)
                reader.recv(1, socket.MSG_PEEK)
                first.process.send_signal(signal.SIGTERM)
                wait_until(lambda: 'serve.drain' in first.stderr(), 'it drains')
                waiting = [connected(socket.AF_INET, at) for _ in range(8)]
                for client in waiting:
                    ask(client, 'GET', '/healthz')
                eq(answer(reader), (200, large), 'what was begun is finished')
            eq(first.ends(), 0)
        check(os.path.exists(f'{folder}/admin'), 'the file is the manager\'s')
        with Handed(binary, folder, [tcp, unix], names='web:admin') as second:
            eq(second.line(), f'listening on http://127.0.0.1:{at[1]}')
            for client in waiting:
                with client:
                    eq(answer(client)[0], 200, 'who came in between is answered by the next server')
            eq(request(socket.AF_INET, at, 'GET', PAGE), (200, large))
            second.process.send_signal(signal.SIGTERM)
            eq(second.ends(), 0)


@scene
def who_comes_in_a_drain_is_accepted_by_a_server_that_is_there_already(binary):
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as other, \
            bound(socket.AF_INET, ('127.0.0.1', 0)) as tcp, bound(socket.AF_UNIX, f'{folder}/s') as unix:
        at, large = tcp.getsockname(), os.urandom(7 << 20)
        listeners, threads = ((socket.AF_INET, at), (socket.AF_UNIX, f'{folder}/s')), ('--set', 'http.threads=4')
        with Handed(binary, folder, [tcp, unix], *threads) as first, connected(socket.AF_INET, at) as reader:
            first.line()
            eq(request(socket.AF_INET, at, 'PUT', f'{PAGE}/1', large)[0], 201)
            ask(reader, 'GET', PAGE)
            reader.recv(1, socket.MSG_PEEK)
            first.process.send_signal(signal.SIGTERM)
            wait_until(lambda: 'serve.drain' in first.stderr(), 'it drains, and has somebody to wait for')
            with Handed(binary, other, [tcp, unix], *threads) as second:
                second.line()
                for _ in range(8):
                    for kind, address in listeners:
                        eq(request(kind, address, 'GET', '/healthz')[0], 200, 'nobody waits for the next who comes')
                eq(answer(reader), (200, large))
                eq(first.ends(), 0)
                eq(request(socket.AF_INET, at, 'GET', PAGE)[0], 404, 'it is the second that answers')
                second.process.send_signal(signal.SIGTERM)
                eq(second.ends(), 0)


@scene
def the_options_listen_beside_them(binary):
    with tempfile.TemporaryDirectory() as folder, bound(socket.AF_INET, ('127.0.0.1', 0)) as tcp:
        with Handed(binary, folder, [tcp], '--listen', f'unix:{folder}/s') as server:
            eq(server.line(), f'listening on unix:{folder}/s')
            eq(server.line(), f'listening on http://127.0.0.1:{tcp.getsockname()[1]}')
            eq(request(socket.AF_UNIX, f'{folder}/s', 'GET', '/v1/admin.tokens')[0], 200)
            eq(request(socket.AF_INET, tcp.getsockname(), 'GET', '/v1/admin.tokens')[0], 200)
            server.process.send_signal(signal.SIGHUP)
            wait_until(lambda: 'reload.done' in server.stderr(), 'it reads the options again')
            check('changed=0 needs_restart=0' in server.stderr(), server.stderr())
            server.process.send_signal(signal.SIGTERM)
            eq(server.ends(), 0)
        check(not os.path.exists(f'{folder}/s'), 'its own file is gone')


@scene
def what_is_no_listening_socket_is_refused(binary):
    with tempfile.TemporaryDirectory() as folder:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams, socket.socket() as deaf, open(os.devnull, 'rb') as file:
            datagrams.bind(('127.0.0.1', 0))
            deaf.bind(('127.0.0.1', 0))
            for wrong in (datagrams, deaf, file):
                with Handed(binary, folder, [wrong]) as server:
                    eq((server.line(), server.ends()), ('', 2))
                    check('LISTEN_FDS: descriptor 3 is no stream socket that listens' in server.stderr(), server.stderr())
        with bound(socket.AF_INET, ('0.0.0.0', 0)) as outside, Handed(binary, folder, [outside]) as server:
            eq(server.ends(), 2, 'auth: open is for loopback')
            check('refused on 0.0.0.0' in server.stderr(), server.stderr())
        with bound(socket.AF_INET, ('127.0.0.1', 0)) as other, \
                Handed(binary, folder, [other], '--listen', f'unix:{folder}/s', pid='1') as server:
            eq(server.line(), f'listening on unix:{folder}/s')
            server.process.send_signal(signal.SIGTERM)
            eq((server.line(), server.ends()), ('', 0), 'sockets for another process are not ours')


main()
