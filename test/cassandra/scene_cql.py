"""src/cql against a real node, by the program that its manual shows (example/cql.c): it makes a
table, writes a hundred rows and reads them back. The proxy counts what that costs on the wire, and
stands for nodes that are older, slower or faulty."""
import subprocess

import rig
from rig import check, eq, main, node, scene

from proxy import Proxies

TIMEOUT = 120
ROWS = 100
INSERT = 'INSERT INTO example.page (wiki, page, html) VALUES (?, ?, ?)'
SELECT = 'SELECT page, html FROM example.page WHERE wiki = ?'


def run(binary, proxy):
    """(exit code, what it printed, what it said of errors, counts of the proxy)"""
    with proxy.counting() as counted:
        done = subprocess.run(
            [rig.built(binary, 'example/cql'), f'{proxy.host}:{proxy.port}', 'dc1'],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    return done.returncode, done.stdout, done.stderr, counted


def run_well(binary, proxy):
    code, said, errors, counted = run(binary, proxy)
    check(code == 0 and f'{ROWS} written, {ROWS} read' in said, f'exit {code}: {said} {errors}')
    return counted


@scene
def each_row_is_one_request(binary):
    with Proxies(node()) as proxies:
        counted = run_well(binary, proxies[1])
        eq(dict(counted['prepared']), {INSERT: 1, SELECT: 1})
        eq(counted['statements'][INSERT], ROWS)
        eq(counted['kinds']['SELECT'], counted['statements'][SELECT])
        eq(dict(counted['errors']), {})


@scene
def bytes_may_come_in_any_pieces(binary):
    with Proxies(node()) as proxies:
        proxies[1].dribble(to_server=5, to_client=3)
        run_well(binary, proxies[1])


@scene
def version_4_is_spoken_with_3_11(binary):
    with Proxies(node()) as proxies:
        for blunt in (False, True):
            proxies[1].hide_3_11(blunt=blunt)
            # Nothing that 3.11 lacks was sent.
            eq(dict(run_well(binary, proxies[1])['errors']), {})


@scene
def a_statement_that_the_node_forgot_is_prepared_again(binary):
    with Proxies(node()) as proxies:
        rule = proxies[1].error('UNPREPARED', opcode='EXECUTE', text='INSERT', after=50)
        counted = run_well(binary, proxies[1])
        eq((rule.hits, counted['prepared'][INSERT], counted['statements'][INSERT]),
           (1, 2, ROWS + 1))


@scene
def an_error_names_the_node_and_the_consistency(binary):
    with Proxies(node()) as proxies:
        proxies[1].error('OVERLOADED', 'too much of it', opcode='EXECUTE', text='INSERT')
        code, _, errors, _ = run(binary, proxies[1])
        eq(code, 1)
        for word in ('127.0.1.1', 'LOCAL_QUORUM', 'too much of it'):
            check(word in errors, f'{word}: {errors}')


@scene
def a_segment_with_a_wrong_bit_fails_the_request(binary):
    with Proxies(node()) as proxies:
        for part in ('header', 'header_crc', 'payload', 'crc'):
            rule = proxies[1].corrupt(part, opcode='RESULT', text='INSERT')
            code, said, _, _ = run(binary, proxies[1])
            eq((code, rule.hits, said), (1, 1, ''), part)


main()
