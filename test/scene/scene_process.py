"""Goal: the process as docs/operations.md says: its first line, its end, its exit codes, its data folder.
Method: the binary alone; every start on a free port and a folder of its own."""
import http.client
import os
import re
import resource
import subprocess
import tempfile

from harness import EXIT_TIMEOUT, Server, check, eq, main, scene


@scene
def the_first_line_says_where_it_listens(binary):
    with Server(binary) as server:
        check(re.fullmatch(r'http://127\.0\.0\.1:[1-9][0-9]*', server.url), server.url)
        eq(server.lines[0], f'listening on {server.url}')
        eq(server.request('GET', '/healthz').status, 200)
        eq(server.request('GET', '/readyz').status, 200)


@scene
def sigterm_and_sigint_end_it_with_0(binary):
    with Server(binary) as server:
        eq(server.sigterm(), 0)
        server.start()
        server.signal(2)
        eq(server.wait_exit(), 0)


@scene
def it_starts_again_on_data_that_was_closed_or_killed(binary):
    with Server(binary) as server:
        put = server.request('PUT', '/localhost/v1/page/html/A/1', {'Content-Type': 'text/html'}, b'one')
        eq(put.status, 201)
        server.restart()
        eq(server.request('GET', '/localhost/v1/page/html/A').body, b'one')
        put = server.request('PUT', '/localhost/v1/page/html/A/2', {'Content-Type': 'text/html'}, b'two')
        eq(put.status, 201)
        eq(server.kill9(), -9)
        server.start()
        eq(server.request('GET', '/localhost/v1/page/html/A').body, b'two')
        eq(server.request('GET', '/localhost/v1/page/html/A/1').body, b'one')


@scene
def two_servers_run_side_by_side_but_not_on_one_folder(binary):
    with Server(binary) as one, Server(binary) as two:
        check(one.url != two.url, one.url)
        eq(two.request('GET', '/healthz').status, 200)
        third = subprocess.run([one.binary, 'serve', '--data', str(one.data), '--listen', '127.0.0.1:0'],
                               capture_output=True, timeout=EXIT_TIMEOUT, check=False)
        check(third.returncode in (1, 2, 3), f'exit {third.returncode}')
        check(third.stderr != b'', 'no word about why')
        eq(one.request('GET', '/healthz').status, 200)


@scene
def wrong_options_are_one_line_and_exit_2(binary):
    for wrong in (['--set', 'page.no_such=1'], ['--set', 'page.grace_ttl=soon'], ['--listen', 'nowhere'],
                  ['--no-such-flag'], ['--config', '/nonexistent/x.yaml'], ['--listen', '0.0.0.0:0'],
                  ['--set', 'client.connections_max=4097',
                   '--set', 'domains.localhost.origin.url=http://127.0.0.1:1/w/rest.php']):
        done = subprocess.run([binary, 'serve', *wrong], capture_output=True, text=True, timeout=EXIT_TIMEOUT, check=False,
                              cwd='/')
        eq(done.returncode, 2, ' '.join(wrong))
        eq(done.stdout, '', ' '.join(wrong))
        eq(len(done.stderr.strip().splitlines()), 1, f'{" ".join(wrong)}: {done.stderr}')


@scene
def a_file_that_may_not_grow_ends_no_server_without_a_word(binary):
    with Server(binary) as server:
        kept, status = [], 201
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (6 << 20, 6 << 20))
        for n in range(200):
            try:
                status = server.request('PUT', f'/localhost/v1/page/html/T{n}/1', {'Content-Type': 'text/html'},
                                        os.urandom(100000)).status
            except (OSError, http.client.HTTPException):
                status = None       # it has ended
            if status != 201:
                break
            kept.append(n)
        check(0 < len(kept) < 200, f'{len(kept)} were stored')
        if status != 507:
            eq(server.wait_exit(), 1)
            check('store.failed' in server.stderr(), server.stderr())
            server.start()
        eq([server.request('GET', f'/localhost/v1/page/html/T{n}').status for n in kept], [200] * len(kept))


@scene
def a_file_that_may_not_grow_ends_no_verb_without_a_word(binary):
    def limited(bytes_max, *arguments, to=subprocess.PIPE):
        done = subprocess.run([binary, *arguments], stdout=to, stderr=subprocess.PIPE, text=True, check=False,
                              timeout=EXIT_TIMEOUT, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE,
                                                                                          (bytes_max, bytes_max)))
        eq(done.returncode, 1, f'{" ".join(arguments)}, {bytes_max} bytes: {done.stderr}')
        check(done.stderr != '', f'{" ".join(arguments)}, {bytes_max} bytes: no word about why')
    with tempfile.TemporaryDirectory() as folder:
        create = ('token', 'create', '--role', 'Admin', '--new', '--data')
        for bytes_max in (0, 1024, 65536):
            limited(bytes_max, *create, f'{folder}/new-{bytes_max}')
        subprocess.run([binary, *create, f'{folder}/d'], capture_output=True, timeout=EXIT_TIMEOUT, check=True)
        for bytes_max in (0, 1024):
            limited(bytes_max, *create, f'{folder}/d')
        limited(1024, 'restore', f'{folder}/d', '--data', f'{folder}/restored')
        with open(f'{folder}/out', 'wb') as out:
            limited(0, 'options', '--markdown', to=out)
        subprocess.run([binary, 'check', '--data', f'{folder}/d'], capture_output=True, timeout=EXIT_TIMEOUT, check=True)


@scene
def hooks_are_unknown_without_the_option(binary):
    with Server(binary) as server:
        eq(server.request('POST', '/v1/test.clock', body={'resume': True}).status,
           server.request('POST', '/v1/test.nothing', body={}).status)


@scene
def the_clock_freezes_advances_and_resumes(binary):
    with Server(binary, test_hooks='2026-01-01T00:00:00.123456789Z') as server:
        eq(server.clock(advance='90s'), '2026-01-01T00:01:30.123456789Z')
        eq(server.clock(freeze='2026-01-02T00:00:00.5Z'), '2026-01-02T00:00:00.500000000Z')
        back = server.request('POST', '/v1/test.clock', body={'freeze': '2026-01-01T23:59:59Z'})
        eq(back.status, 400)
        check(server.clock(resume=True) > '2026-01-02T00:00:00.5', 'it runs on')


main()
