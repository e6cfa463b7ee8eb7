"""Goal: pages that must wait for something: cold reads, longer lives, writers that race; and ready answers that must
not outrun permission. Method: pages dropped from the kernel's cache, threads, and the authority switched on."""
import hashlib
import json
import os
import pathlib
import threading

from harness import Server, check, eq, main, scene
from page_help import DAY, explain, get, history, instant, page_server, path, problem, put
from shared_store import differs


def noise(seed, size):
    """Bytes that no coding makes smaller."""
    return b''.join(hashlib.sha256(f'{seed} {i}'.encode()).digest() for i in range(size // 32))


def forget_pages(server):
    """Drops the store's files from the kernel's cache, as far as it obeys."""
    for file in pathlib.Path(server.data).rglob('*'):
        if file.is_file():
            handle = os.open(file, os.O_RDONLY)
            try:
                os.fsync(handle)
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(handle)


def all_at_once(calls):
    """Runs the calls on a thread each; what they return, in order; the first exception is raised again."""
    results, errors = [None] * len(calls), []

    def run(index):
        try:
            results[index] = calls[index]()
        except Exception as error:  # pylint: disable=broad-except
            errors.append(error)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


@scene
def cold_pages_come_back_whole(binary):
    with page_server(binary, '--set', 'hot_bytes=0') as server:
        bodies = {f'T{i}': noise(i, 100_000 + i * 32) for i in range(40)}
        for title, body in bodies.items():
            put(server, title, 1, body)
        eq(server.sigterm(), 0)
        forget_pages(server)
        server.start()
        got = all_at_once([lambda title=title: get(server, title).body for title in bodies])
        for (title, body), answer in zip(bodies.items(), got):
            eq(answer == body, True, title)
        forget_pages(server)
        ranged = get(server, 'T3', status=206, headers={'Range': 'bytes=50000-50009'})
        eq(ranged.body, bodies['T3'][50000:50010])
        eq(server.request('HEAD', path('html', 'T4')).headers['Content-Length'], str(len(bodies['T4'])))


@scene
def cold_old_renders_are_extended_and_come_back_whole(binary):
    with page_server(binary) as server:
        bodies = {f'T{i}': noise(i, 60_000) for i in range(20)}
        for title, body in bodies.items():
            put(server, title, 1, body)
            put(server, title, 2, b'two')
        server.clock(advance='23h')
        forget_pages(server)
        got = all_at_once([lambda title=title: get(server, title, 1).body for title in bodies for _ in range(2)])
        for index, (title, body) in enumerate(bodies.items()):
            eq((got[2 * index] == body, got[2 * index + 1] == body), (True, True), title)
            eq(explain(server, title, 1)['due_at'], instant(23 * 3600 + 1.25 * DAY))


def one_wins(answers):
    """How many won: one, of those who put a page under one condition."""
    statuses = sorted(answer.status for answer in answers)
    won = statuses.count(201)
    if differs('of writers of one instant each decides by what was acknowledged before'):
        check(won >= 1, statuses)
    else:
        eq(won, 1)
    eq(statuses, [201] * won + [412] * (len(statuses) - won))
    return won


@scene
def of_many_writers_with_one_condition_one_wins(binary):
    with page_server(binary) as server:
        for round_ in range(10):
            title = f'T{round_}'
            calls = [lambda n=n, t=title: server.request('PUT', path('html', t, n + 1), {'If-None-Match': '*'}, b'%d' % n)
                     for n in range(8)]
            won = one_wins(all_at_once(calls))
            eq(len(history(server, title)['items']), won)
            eq([answer.status for answer in all_at_once(calls)], [412] * 8, 'it is there')
            tag = get(server, title).headers['ETag']
            calls = [lambda n=n, t=title, tag=tag: server.request('PUT', path('html', t, n + 100), {'If-Match': tag}, b'%d' % n)
                     for n in range(8)]
            won += one_wins(all_at_once(calls))
            eq(len(history(server, title)['items']), won)
            eq([answer.status for answer in all_at_once(calls)], [412] * 8, 'the latest is another one')


@scene
def racing_revisions_leave_one_latest_and_all_readable(binary):
    with page_server(binary) as server:
        answers = all_at_once([lambda rev=rev: put(server, 'A', rev, b'%d' % rev) for rev in range(1, 33)])
        eq(sum(answer['applied'] for answer in answers), 32)
        items = history(server, 'A')['items']
        eq([item['rev'] for item in items], list(range(32, 0, -1)))
        eq([item['state'] for item in items], ['current'] + ['recent'] * 31)
        for item in items[1:]:
            check(item['due_at'] == instant(DAY) and item['superseded_by']['rev'] > item['rev'], f'{item}')
        eq(get(server, 'A').body, b'32')
        for rev in range(1, 33):
            eq(get(server, 'A', rev).body, b'%d' % rev)


@scene
def the_same_put_from_many_is_stored_once(binary):
    with page_server(binary) as server:
        answers = all_at_once([lambda: server.request('PUT', path('html', 'A', 1), {'Content-Type': 'text/html'}, b'same')
                               for _ in range(16)])
        statuses = sorted(answer.status for answer in answers)
        stored = statuses.count(201)
        if differs('writers of one instant decide beside each other, and each stores what it puts'):
            check(stored >= 1, statuses)
        else:
            eq(stored, 1)
        eq(statuses, [200] * (16 - stored) + [201] * stored)
        names = {json.loads(answer.body)['tid'] for answer in answers}      # the clock stands: one name, whoever gives it
        eq([item['tid'] for item in history(server, 'A')['items']], list(names))
        again = server.request('PUT', path('html', 'A', 1), {'Content-Type': 'text/html'}, b'same')
        eq((again.status, json.loads(again.body)['tid']), (200, min(names)))


@scene
def a_ready_answer_needs_permission_too(binary):
    with Server(binary, '--set', 'auth=internal') as server:
        put(server, 'A', 1, b'one')
        for _ in range(3):
            eq(get(server, 'A').body, b'one')      # the door is open: by now it is ready
        admin = server.json('POST', '/v1/admin.tokens', body={'roles': ['Admin']}).body['key']
        reader = server.json('POST', '/v1/admin.tokens', body={'roles': ['read']}).body['key']
        eq(server.request('POST', '/v1/admin.door', body={'open': False}).status, 200)
        for headers in ({}, {'If-None-Match': '*'}, {'Authorization': 'Bearer x'}, {'Authorization': 'Basic eA=='}):
            answer = server.request('GET', path('html', 'A'), headers)
            problem(answer, 401, 'unauthorized')
            eq(answer.headers['WWW-Authenticate'], 'Bearer')
        key = {'Authorization': f'Bearer {reader}'}
        for _ in range(3):
            eq(get(server, 'A', headers=key).body, b'one')
            eq(server.request('GET', path('html', 'A'), {'If-None-Match': '*', **key}).status, 304)
        problem(server.request('PUT', path('html', 'A', 2), key, b'two'), 403, 'forbidden')
        problem(server.request('DELETE', path('all', 'A'), key), 403, 'forbidden')
        eq(server.request('PUT', path('html', 'A', 2), {'Authorization': f'Bearer {admin}'}, b'two').status, 201)
        eq(get(server, 'A', headers=key).body, b'two')


main()
