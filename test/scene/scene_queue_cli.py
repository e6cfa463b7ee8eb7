"""Goal: queues are made, filled, emptied and watched from the command line: lines, pieces and files go in and come out
unchanged, handles do what they name, what is refused is said, a server that goes away meanwhile loses and doubles
nothing. And script/run --queue shows all of it.
Method: the binary as a client of a real server; pipes and files of all kinds of bytes.
"""
import base64
import json
import os
import pathlib
import subprocess
import sys
import threading

from cli import Client
from harness import Server, check, eq, free_port, main, scene

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SHOW_TIMEOUT = 400


def queue_of(binary, *options, server_args=()):
    """(server, client) with a queue q."""
    server = Server(binary, *server_args)
    client = Client(binary, server)
    client.ok('queue', 'create', 'q', *options)
    return server, client


def refused(client, *args, code=1, says='', stdin=b''):
    done = client(*args, stdin=stdin)
    eq(done.returncode, code, f'{args}: {done.stderr!r}')
    check(says in done.stderr.decode(), f'{args}: {done.stderr!r}')


def lines(text):
    return text.splitlines()


@scene
def queues_are_made_listed_changed_and_removed(binary):
    server, client = queue_of(binary, '--partitions', '3', '--lease-timeout', '90s', '--max-attempts', '5',
                              '--reference', 'words')
    with server:
        refused(client, 'queue', 'create', 'q', code=6, says="invalid queue; 'q' already exists")
        refused(client, 'queue', 'create', 'a b', code=6, says='cannot contain whitespace')
        for many in ('many', '0', '65536'):
            refused(client, 'queue', 'create', 'x', '-p', many, code=2, says='--partitions wants a number from 1 to 65535')
        refused(client, 'queue', 'drain', 'q', 'one', code=2, says='a partition is a number from 0 to 65534, not "one"')
        refused(client, 'queue', 'update', 'q', '-p', '2', code=6, says='a queue has 3 and cannot have fewer')
        check('lasts, as in 1m30s [1m]' in client.ok('queue', 'create', '--help'), 'what a new queue gets')
        check('lasts, as in 1m30s\n' in client.ok('queue', 'update', '--help'), 'what is not given is kept')
        client.ok('queue', 'create', 'q2', '--dead-queue', 'q')
        client.ok('queue', 'create', 'other')
        info = client.json('queue', 'info', 'q')[0]
        eq((info['requested_partitions'], info['lease_timeout'], info['expire_timeout'], info['max_attempts'],
            info['reference']), (3, '1m30s', '24h0m0s', 5, 'words'))
        eq([q['queue_name'] for q in client.json('queue', 'ls')], ['other', 'q', 'q2'])
        eq([q['queue_name'] for q in client.json('queue', 'ls', 'q')], ['q', 'q2'])
        check('1m30s' in client.ok('queue', 'ls', 'q'), 'the table')
        client.ok('queue', 'update', 'q', '--max-attempts', '7')
        info = client.json('queue', 'info', 'q')[0]
        eq((info['max_attempts'], info['lease_timeout'], info['reference']), (7, '1m30s', 'words'))
        refused(client, 'queue', 'rm', 'q', code=6, says="queue is in use; it is the dead queue of others (1)")
        client.ok('queue', 'update', 'q2', '--dead-queue', '')
        check('dead_queue' not in client.json('queue', 'info', 'q2')[0], 'it has none any more')
        refused(client, 'queue', 'create', 'x', '--durability', 'some', code=2, says='--durability wants sync')
        client.ok('queue', 'create', 'fast', '--durability', 'interval')
        client.ok('queue', 'update', 'fast', '--reference', 'still fast')
        eq(client.json('queue', 'stats', 'fast')[0]['durability'], 'interval')
        client.ok('queue', 'update', 'fast', '--durability', 'none')
        eq(client.json('queue', 'stats', 'fast')[0]['durability'], 'none')
        client.ok('queue', 'create', 'dead')
        client.ok('queue', 'update', 'q2', '--dead-queue', 'dead')
        client.ok('queue', 'rm', '--force', 'dead')
        client.ok('queue', 'create', 'dead')
        client.ok('queue', 'rm', 'q2', 'dead', 'other', 'fast')
        eq([q['queue_name'] for q in client.json('queue', 'ls')], ['q'])
        refused(client, 'queue', 'rm', 'q2', code=5, says="no such queue named 'q2'")
        refused(client, 'queue', 'info', 'q2', code=5, says="no such queue named 'q2'")


@scene
def an_item_goes_in_up_to_the_limit_of_a_request(binary):
    server, client = queue_of(binary)
    with server:
        most = (5_000_000 - 4096 - 64) // 4 * 3
        client.ok('queue', 'produce', 'q', '--file', stdin=b'x' * most)
        refused(client, 'queue', 'produce', 'q', stdin=b'first\n' + b'x' * (most + 100) + b'\n',
                says=f'an item of {most + 100} bytes is too long: in base64 it makes a request of more than 5000000 bytes')
        client.ok('queue', 'produce', 'q', '--batch', '1000', '--reference', 'r' * 2000, '--encoding', 'e' * 2000,
                  '--kind', 'k' * 2000, stdin=b'small\n' * 1000)
        eq(client.json('queue', 'stats', 'q')[0]['partitions'][0]['ready'], '1002', 'what came before it is stored')


@scene
def lines_go_in_and_come_out_in_order(binary):
    server, client = queue_of(binary)
    with server:
        text = [f'line {i}' for i in range(2500)] + ['', 'the last without an end']
        made = client.json('queue', 'produce', 'q', '--batch', '1000', stdin='\n'.join(text).encode())
        eq(made, [{'queue_name': 'q', 'items': 2502, 'requests': 3}])
        out = client.ok('queue', 'lease', 'q', '--all', '--complete', '--body', '--timeout', '3s')
        eq(out, '\n'.join(text) + '\n')
        refused(client, 'queue', 'lease', 'q', '--timeout', '50ms', code=5, says='no items are in the queue')
        eq(client.ok('queue', 'lease', 'q', '--all', '--timeout', '50ms'), '')


@scene
def items_may_be_any_bytes(binary):
    server, client = queue_of(binary)
    with server:
        folder = client.folder
        everything = bytes(range(256)) * 40
        (folder / 'a').write_bytes(everything)
        (folder / 'b').write_bytes(b'')
        client.ok('queue', 'produce', 'q', '--file', 'a', 'b')
        client.ok('queue', 'produce', 'q', '--null', stdin=b'one\ntwo\0\0three')
        got = client.json('queue', 'lease', 'q', '--count', '5')
        eq(base64.b64decode(got[0]['base64']), everything)
        eq([item.get('body') for item in got[1:]], ['', 'one\ntwo', '', 'three'])
        eq([item['attempts'] for item in got], [1] * 5)
        done = client('queue', 'complete', 'q', *[item['handle'] for item in got])
        eq(done.returncode, 0, repr(done.stderr))
        client.ok('queue', 'produce', 'q', '--file', 'a')
        done = client('queue', 'lease', 'q', '--body', '--null')
        eq(done.stdout, everything + b'\0')
        refused(client, 'queue', 'produce', 'q', '--file', 'nothing', says='cannot read nothing')
        refused(client, 'queue', 'produce', 'q', 'nothing', says='cannot open nothing')
        refused(client, 'queue', 'produce', 'none', stdin=b'x\n', code=5, says="no such queue named 'none'")


@scene
def an_item_may_be_due_long_after_its_life(binary):
    server, client = queue_of(binary, '--expire-timeout', '1h')
    with server:
        client.ok('queue', 'produce', 'q', '--at', '2090-01-01T00:00:00Z', stdin=b'later')
        [item] = server.json('POST', '/v1/storage/scheduled.list', body={'queue_name': 'q'})[2]['items']
        eq((item['payload'], item['expire_deadline']), ('bGF0ZXI=', '2090-01-01T01:00:00Z'))


@scene
def peek_shows_as_many_as_are_wanted(binary):
    server, client = queue_of(binary, '--partitions', '3', server_args=('--set', 'queue.reply_bytes_max=64k'))
    with server:
        words = [f'{i:02} {"x" * 20000}' for i in range(20)]
        for word in words:
            client.ok('queue', 'produce', 'q', stdin=word.encode())
        for count in (1, 2, 7, 20, 100):
            eq(client.ok('queue', 'peek', 'q', '--count', str(count), '--body').splitlines(), words[:count])
        eq(client.ok('queue', 'peek', 'q', '--partition', '1', '--count', '100', '--body').splitlines(), words[1::3])


@scene
def a_pipe_is_sent_when_nothing_more_has_come(binary):
    server, client = queue_of(binary)
    with server:
        producer = subprocess.Popen([client.binary, 'queue', 'produce', 'q', '--quiet'], stdin=subprocess.PIPE,
                                    env=client.env)
        try:
            producer.stdin.write(b'early\n')
            producer.stdin.flush()
            eq(client.ok('queue', 'lease', 'q', '--body', '--complete', '--timeout', '30s'), 'early\n')
            producer.stdin.write(b'late')
            producer.stdin.close()
            eq(producer.wait(60), 0)
        finally:
            producer.kill()
            producer.wait()
        eq(client.ok('queue', 'lease', 'q', '--body'), 'late\n')


@scene
def handles_complete_and_return_what_they_name(binary):
    server, client = queue_of(binary, '--partitions', '2', '--dead-queue', '')
    with server:
        client.ok('queue', 'create', 'dead')
        client.ok('queue', 'update', 'q', '--dead-queue', 'dead')
        for word in 'abcdef':
            client.ok('queue', 'produce', 'q', '--batch', '1', stdin=f'{word}\n'.encode())
        leased = client.ok('queue', 'lease', 'q', '--count', '6')
        by_item = {line.split('\t')[1]: line.split('\t')[0] for line in lines(leased)}
        eq(set(by_item), set('abcdef'))
        eq({handle.split('/')[0] for handle in by_item.values()}, {'0', '1'})
        client.ok('queue', 'complete', 'q', by_item['a'], by_item['b'])
        done = client.json('queue', 'complete', 'q', stdin=''.join(f'{by_item[w]}\tx\n' for w in 'cd').encode())
        eq(done, [{'queue_name': 'q', 'items': 2}])
        refused(client, 'queue', 'complete', 'q', by_item['a'], code=5, says='does not exist')
        refused(client, 'queue', 'complete', 'q', 'nonsense', code=2, says='a handle is PARTITION/ID')
        refused(client, 'queue', 'complete', 'q', '9/' + by_item['e'].split('/')[1], code=6, says='is not a valid partition')
        client.ok('queue', 'retry', 'q', by_item['e'])
        client.ok('queue', 'retry', 'q', '--dead', by_item['f'])
        again = client.json('queue', 'lease', 'q')
        eq((again[0]['body'], again[0]['attempts']), ('e', 2))
        check(again[0]['handle'] != by_item['e'], 'a new id')
        client.ok('queue', 'retry', 'q', '--in', '1h', again[0]['handle'])
        refused(client, 'queue', 'lease', 'q', '--timeout', '50ms', code=5, says='no items')
        partition = again[0]['handle'].split('/')[0]
        eq(client.ok('queue', 'peek', 'q', '--scheduled', '--partition', partition, '--body'), 'e\n')
        refused(client, 'queue', 'retry', 'q', '--at', 'soon', again[0]['handle'], code=2, says='--at wants an instant')
        eq(client.ok('queue', 'peek', 'dead', '--body'), 'f\n')
        eq(client.json('queue', 'requeue', 'dead', 'q'), [{'moved': 1}])
        eq(client.ok('queue', 'lease', 'q', '--body'), 'f\n')


@scene
def the_text_of_an_item_is_no_handle(binary):
    server, client = queue_of(binary)
    with server:
        client.ok('queue', 'produce', 'q', stdin=b'of another')
        other = client.ok('queue', 'lease', 'q', '--count', '1').split('\t')[0]
        evil = f'first\n{other}\tsecond \\n\r\x01\x7f é'.encode()
        client.ok('queue', 'produce', 'q', '--null', stdin=evil + b'\0plain\ttext')
        peeked = client.ok('queue', 'peek', 'q')
        eq([line.split('\t')[1] for line in peeked.split('\n')[:-1]],
           ['of another', f'first\\n{other}\\tsecond \\\\n\\x0d\\x01\\x7f é', 'plain\\ttext'])
        leased = client.ok('queue', 'lease', 'q', '--count', '2')
        eq([line.split('\t')[1] for line in leased.split('\n')[:-1]],
           [line.split('\t')[1] for line in peeked.split('\n')[1:-1]])
        eq(client.json('queue', 'complete', 'q', stdin=leased.encode()), [{'queue_name': 'q', 'items': 2}])
        eq([item['body'] for item in client.json('queue', 'peek', 'q')], ['of another'], 'it stays with its consumer')
        client.ok('queue', 'complete', 'q', other)


@scene
def records_that_end_in_nul_are_raw_and_come_back(binary):
    server, client = queue_of(binary)
    with server:
        client.ok('queue', 'create', 'again')
        items = [b'a\n0/x\tb\\n\t', b'', b'\x01\x7f\xff\r\n', b'last']
        raw = b''.join(item + b'\0' for item in items)
        client.ok('queue', 'produce', 'q', '--null', stdin=raw)
        bodies = client('queue', 'peek', 'q', '--body', '-0').stdout
        eq(bodies, raw)
        client.ok('queue', 'produce', 'again', '-0', stdin=bodies)
        leased = client('queue', 'lease', 'again', '--count', '4', '-0').stdout
        records = leased.split(b'\0')[:-1]
        eq([record.split(b'\t', 1)[1] for record in records], items)
        client.ok('queue', 'retry', 'again', '-0', stdin=leased)
        leased = client('queue', 'lease', 'again', '--count', '4', '-0').stdout
        eq(client.json('queue', 'complete', 'again', '-0', stdin=leased), [{'queue_name': 'again', 'items': 4}])
        client.ok('queue', 'produce', 'again', '--null', stdin=b'two\nlines')
        eq(client.ok('queue', 'lease', 'again', '--body'), 'two\nlines\n', 'alone it is as it was')
        (client.folder / 'nul').write_bytes(b'a\x000/x\tb')
        client.ok('queue', 'create', 'nul')
        client.ok('queue', 'produce', 'nul', '--file', 'nul')
        client.ok('queue', 'produce', 'nul', stdin=b'the next')
        done = client('queue', 'lease', 'nul', '--count', '2', '--complete', '-0')
        eq((done.returncode, done.stdout.split(b'\t')[1:]), (1, [b'the next\0']), done.stderr)
        check(b'an item that holds NUL' in done.stderr, done.stderr)
        eq(client('queue', 'peek', 'nul', '--body').stdout, b'a\x000/x\tb\n', 'what was not printed is not completed')


@scene
def a_bad_handle_completes_nothing(binary):
    server, client = queue_of(binary)
    with server:
        client.ok('queue', 'produce', 'q', '--batch', '1000', stdin=b'x\n' * 1500)
        leased = client('queue', 'lease', 'q', '--count', '1500').stdout
        handles = [line.split('\t')[0] for line in lines(leased.decode())]
        for verb in 'complete', 'retry':
            refused(client, 'queue', verb, 'q', stdin=leased + b'nonsense\n', code=2, says='a handle is PARTITION/ID')
            refused(client, 'queue', verb, 'q', handles[0], 'nonsense', code=2, says='a handle is PARTITION/ID')
            refused(client, 'queue', verb, 'q', stdin=leased + b'0/\xff\n', code=2, says='a handle is PARTITION/ID in UTF-8')
        eq(len(client.json('queue', 'peek', 'q', '--count', '2000')), 1500)
        eq(client.json('queue', 'stats', 'q')[0]['partitions'][0]['leased'], '1500')
        eq(client.json('queue', 'complete', 'q', stdin=leased)[0]['items'], 1500)


@scene
def words_that_are_not_utf8_are_refused(binary):
    server, client = queue_of(binary)
    with server:
        (client.folder / 'f').write_bytes(b'x')
        client.ok('queue', 'create', '\ufffd')
        for call in (('rm', b'\xff'), ('rm', 'q', b'\xfe'), ('create', b'a\xc0\xaf'), ('info', b'\xed\xa0\x80'),
                     ('create', 'x', '--dead-queue', b'\xff'), ('ls', b'\xff'), ('top', '--count', '1', b'\xff'),
                     ('create', 'x', b'--reference=\xff'), ('produce', 'q', '--kind', b'\xff', 'f'),
                     ('produce', b'\xff', 'f'), ('produce', 'q', 'f', '--order-key', b'\xff'),
                     ('lease', 'q', '--client', b'\xff'), ('complete', 'q', b'0/\xff'), ('move', 'q', '0', b'\xff'),
                     ('requeue', 'q', b'\xff'), ('stats', 'q', '--token', b'\xff')):
            refused(client, 'queue', *call, code=2, says='is not UTF-8')
        for call in (('get', b'\xff'), ('rm', b'\xff'), ('get', 'T', '--domain', b'\xff'), ('ls', b'\xff'),
                     ('put', b'\xff', '1', 'f'), ('put', 'T', '1', b'c\xff=f'), ('list', 'get', 'l', b'\xff'),
                     ('token', 'create', '--name', b'\xff')):
            refused(client, *call, code=2, says='is not UTF-8')
        refused(client, 'queue', 'rm', b'a\xff', code=2, says='queue rm: "a?" is not UTF-8')
        refused(client, 'queue', 'create', 'x', '--reference', b'\xff', code=2, says='--reference is not UTF-8')
        eq([q['queue_name'] for q in client.json('queue', 'ls')], ['q', '\ufffd'])
        odd = bytes(client.folder) + b'/\xff'
        pathlib.Path(os.fsdecode(odd)).write_bytes(b'of an odd name')
        client.ok('queue', 'produce', 'q', odd)
        eq(client.ok('queue', 'lease', 'q', '--body'), 'of an odd name\n')


@scene
def what_cannot_be_read_is_named(binary):
    server, client = queue_of(binary)
    with server:
        (client.folder / 'folder').mkdir()
        refused(client, 'queue', 'produce', 'q', 'folder', says='cannot read folder: Is a directory')
        refused(client, 'queue', 'produce', 'q', '--file', 'folder', says='cannot read folder')
        for key in '', ' ', '\t':
            refused(client, 'queue', 'produce', 'q', '--order-key', key, code=2, says='--order-key', stdin=b'x\n')
        eq(client.ok('queue', 'peek', 'q'), '')


@scene
def partitions_obey_and_are_counted(binary):
    server, client = queue_of(binary, '--partitions', '2')
    with server:
        client.ok('queue', 'drain', 'q', '0')
        client.ok('queue', 'produce', 'q', stdin=b'a\nb\n')
        stats = client.json('queue', 'stats', 'q')[0]
        states = {p.get('partition', 0): (p['state'], p.get('ready', '0')) for p in stats['partitions']}
        eq(states, {0: ('draining', '0'), 1: ('available', '2')})
        check('draining' in client.ok('queue', 'stats', 'q'), 'the table')
        client.ok('queue', 'resume', 'q', '0')
        client.ok('queue', 'pause', 'q', '1')
        refused(client, 'queue', 'lease', 'q', '--timeout', '50ms', code=5, says='no items')
        client.ok('queue', 'produce', 'q', stdin=b'c\n')
        eq(client.ok('queue', 'lease', 'q', '--body', '--complete'), 'c\n')
        client.ok('queue', 'resume', 'q', '1')
        eq(client.ok('queue', 'lease', 'q', '--count', '2', '--body'), 'a\nb\n')
        client.ok('queue', 'add', 'q')
        eq(len(client.json('queue', 'stats', 'q')[0]['partitions']), 3)
        client.ok('queue', 'rebalance', 'q')
        refused(client, 'queue', 'pause', 'q', '7', code=6, says='is not a valid partition')
        refused(client, 'queue', 'pause', 'q', 'one', code=2, says='a partition is a number')
        why = [json.loads(line) for line in lines(client.ok('queue', 'why', 'q'))]
        eq([decision['partition'] for decision in why if decision['items'] == 2], [1])


@scene
def top_prints_lines_where_there_is_no_terminal(binary):
    server, client = queue_of(binary)
    with server:
        client.ok('queue', 'produce', 'q', stdin=b'a\nb\nc\n')
        client.ok('queue', 'lease', 'q')
        out = lines(client.ok('queue', 'top', '--count', '2', '--interval', '100'))
        eq(len(out), 2)
        check(all(' q ready=2 scheduled=0 leased=1 waiting=0' in line for line in out), str(out))
        rows = client.json('queue', 'top', 'q', '--count', '1')
        eq([(row['queue_name'], row['ready'], row['leased']) for row in rows], [('q', 2, 1)])
        refused(client, 'queue', 'top', '--interval', '1', code=2, says='--interval wants a number')


@scene
def a_kill_between_batches_loses_and_doubles_nothing(binary):
    server, client = queue_of(binary, '--partitions', '4', server_args=('--listen', f'127.0.0.1:{free_port()}'))
    with server:
        producer = subprocess.Popen([client.binary, 'queue', 'produce', 'q', '--batch', '7', '--quiet', '--timeout', '240s'],
                                    stdin=subprocess.PIPE, env=client.env)
        halfway = threading.Event()

        def feed():
            for i in range(2000):
                producer.stdin.write(f'item {i}\n'.encode())
                if i == 1000:
                    producer.stdin.flush()
                    halfway.set()
            producer.stdin.close()
        worker = threading.Thread(target=feed)
        worker.start()
        try:
            check(halfway.wait(60), 'half of it was written')
            server.kill9()
            server.start()
            worker.join(120)
            eq(producer.wait(120), 0, 'the producer')
        finally:
            producer.kill()
            producer.wait()
        out = client.ok('queue', 'lease', 'q', '--all', '--complete', '--body', '--timeout', '3s')
        eq(sorted(lines(out)), sorted(f'item {i}' for i in range(2000)))


@scene
def a_key_is_asked_for_on_queues_too(binary):
    with Server(binary, '--set', 'auth=internal') as server:
        client = Client(binary, server)
        client.ok('queue', 'create', 'q')
        key = client.json('token', 'create', '--role', 'read')[0]['key']
        admin = client.json('token', 'create', '--role', 'Admin')[0]['key']
        client.ok('token', 'lock')
        refused(client, 'queue', 'ls', code=6, says='access denied')
        refused(client, 'queue', 'ls', '--token', key, code=6, says='access denied')
        eq(client.json('queue', 'ls', '--token', admin)[0]['queue_name'], 'q')


@scene
def the_show_runs_and_counts(binary):
    with Server(binary) as server: # for a folder that goes
        repository = server.folder / 'repository'
        subprocess.run(['git', 'init', '-q', repository], check=True)
        for i in range(60):
            subprocess.run(['git', '-C', repository, '-c', 'user.name=n', '-c', 'user.email=e@x.test', 'commit', '-q',
                            '--allow-empty', '-m', f'commit "{i}" \t of sixty'], check=True)
        installed = list(pathlib.Path('/usr/lib/postgresql').glob('*/bin/initdb'))
        for stores in ('local', 'postgres') if installed else ('local',):
            done = subprocess.run([sys.executable, '-B', ROOT / 'tools' / 'queue_show.py', '--queue', '--binary',
                                   binary, '--stores', stores, '--dir', server.folder / 'show', repository],
                                  capture_output=True, text=True, check=False, timeout=SHOW_TIMEOUT)
            eq(done.returncode, 0, f'{done.stdout[-1500:]}{done.stderr[-1500:]}')
            check('commits 60, completed 60, lost 0, twice 0' in done.stdout, done.stdout[-1500:])


main()
