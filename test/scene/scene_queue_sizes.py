"""Goal: sizes that clients and operators choose stop no queue and lose no item. Method: bodies, fields and options of such
sizes; both encodings where they matter."""
import subprocess
import tempfile

from harness import check, eq, main, scene
from queue_help import BOTH, complete, create, lease, produce, queue_server, stats


def counts(server, name):
    """(ready, leased) of a queue with one partition."""
    [part] = stats(server, name)['partitions']
    leased = part.get('total_leased', 0)
    return part.get('total', 0) - leased, leased


@scene
def an_answer_that_needs_more_memory_keeps_no_item(binary):
    every = '\x01' * 2000       # one byte of a field is six in JSON
    with queue_server(binary, '--set', 'http.arena_bytes_max=24M') as server:
        create(server, 'q')
        for _ in range(10):
            produce(server, 'q', *['x'] * 100, encoding=every, kind=every, reference=every)
        got, replies = [], 0
        while len(got) < 1000:
            _, items = lease(server, 'q', 1000, client=f'c{len(got)}')
            got += items
            replies += 1
            eq(counts(server, 'q'), (1000 - len(got), len(got)), 'what was not told is not leased')
        check(replies > 1, 'no answer has room for all of them')
        eq({item['attempts'] for item in got}, {1})
        eq([item['id'] for item in got], sorted(item['id'] for item in got))


@scene
def a_reply_of_the_largest_size_is_told(binary):
    with queue_server(binary, '--set', 'queue.reply_bytes_max=32M', '--set', 'http.arena_bytes_max=96M') as server:
        create(server, 'q')
        for _ in range(10):
            produce(server, 'q', *[b'c' * 100000] * 35)
        for wire in BOTH:
            _, items = lease(server, 'q', 350, client=wire, wire=wire)
            check(31 << 20 < sum(len(item['bytes']) for item in items) <= 32 << 20, 'the reply is full')
            eq(counts(server, 'q')[1], len(items))
            complete(server, 'q', items)
            for _ in range(0, len(items), 35):
                produce(server, 'q', *[b'c' * 100000] * 35)


@scene
def a_reply_beyond_the_memory_of_a_request_is_refused_at_the_start(binary):
    with tempfile.TemporaryDirectory() as folder:
        got = subprocess.run([binary, 'serve', '--data', folder, '--set', 'queue.reply_bytes_max=32M'],
                             capture_output=True, text=True, timeout=60)
    eq(got.returncode, 2)
    check('queue.reply_bytes_max' in got.stderr and 'http.arena_bytes_max' in got.stderr, got.stderr)


main()
