"""Goal: what is sent to Redis was there in 6.2.0, and so is in every later one and in Valkey, which began as 7.2.4.
Method: two real servers go through all they do with Redis while MONITOR listens, to them and to their scripts. Each
command is then held against what a real redis-server 7.0 says of its own commands: since when it has them, their
subcommands and options, and what was added to them later (COMMAND DOCS)."""
import collections
import contextlib
import re
import socket
import threading

import redis_source
from harness import check, eq, main, scene, wait_until
from list_help import Cluster, Redis, RedisConnection
from origin import Origin

OLDEST = (6, 2, 0)
LEASED = ('--set', 'redis.timeout=20s', '--set', 'redis.lease=1s')
RULES = re.compile(r'An ACL user needs\s+`([^`]+)`')
LISTENS_S = 300
# What Redis learnt after 6.2.0 about commands that we use. Words: so many of a command are surely older than that. A
# command whose COMMAND DOCS tell of more than stands here fails until somebody has looked.
LATER = {
    'pexpire': ('7.0.0', 3),       # NX XX GT LT behind the time
    'info': ('7.0.0', 2),          # several sections
}
OF_SCRIPTS = {'call': '2.6.0', 'pcall': '2.6.0'}     # what scripts use of the table redis


# ---- what Redis says of its commands

def _as_map(flat):
    return {flat[n].decode(): flat[n + 1] for n in range(0, len(flat), 2)}


def _version(text):
    text = text if isinstance(text, str) else text.decode()
    return tuple(int(part) for part in text.split('.'))


class Docs:
    """COMMAND DOCS of a real server."""

    def __init__(self, redis):
        self.commands = {name: _as_map(doc) for name, doc in _as_map(redis('COMMAND', 'DOCS')).items()}
        check(len(self.commands) > 200, f'{len(self.commands)} commands: a redis-server 7 or later is needed')

    def _tokens(self, arguments):
        """{TOKEN: since} of options, also of those within others, that say since when."""
        found = {}
        for argument in map(_as_map, arguments):
            if 'token' in argument and 'since' in argument:
                found[argument['token'].decode().upper()] = _version(argument['since'])
            found.update(self._tokens(argument.get('arguments', [])))
        return found

    def _too_new(self, name, doc, words):
        if _version(doc['since']) > OLDEST:
            yield f'{name} is there since {doc["since"].decode()}'
        for token, since in self._tokens(doc.get('arguments', [])).items():
            if since > OLDEST and token in (word.upper() for word in words[1:]):
                yield f'{name} {token} is there since {since}'
        for since, what in doc.get('history', []):
            known, most = LATER.get(name, (None, 0))
            if _version(since) > OLDEST and (known != since.decode() or len(words) > most):
                yield f'{" ".join(words)[:100]}: {since.decode()} {what.decode()}'

    def newer(self, words):
        """Why this command, a list of words, may be newer than OLDEST; nothing when it is not."""
        name = words[0].lower()
        if name not in self.commands:
            return [f'{name} is no command']
        doc, why = self.commands[name], []
        if 'subcommands' in doc:
            why += self._too_new(name, {'since': doc['since']}, words[:1])
            name += '|' + words[1].lower()
            doc = _as_map(_as_map(doc['subcommands']).get(name, [b'since', b'99.0.0']))
        return why + list(self._too_new(name, doc, words))


# ---- what is sent

class Monitor:
    """All commands of database 1, which are the servers', of their scripts, and of those that know no database."""

    WITHOUT = ('SELECT', 'SUBSCRIBE')

    def __init__(self, port):
        self.connection = RedisConnection(port, LISTENS_S)
        eq(self.connection('MONITOR'), 'OK')
        self.sent = []
        self.thread = threading.Thread(target=self._listen, daemon=True)
        self.thread.start()

    def _listen(self):
        with contextlib.suppress(OSError, ValueError):      # it is over, here or there
            while True:
                line = self.connection.reply()
                database, words = re.match(r'[\d.]+ \[(\d+) [^\]]*\] (.*)', line, re.S).groups()
                words = re.findall(r'"((?:\\.|[^"\\])*)"', words)
                if database == '1' or words[0].upper() in self.WITHOUT:
                    self.sent.append([words[0].upper(), *words[1:]])

    def names(self):
        return collections.Counter(words[0] for words in list(self.sent))

    def scripts(self):
        """Names of the scripts that ran, by their digests."""
        names = {redis_source.digest(text): name for name, text in redis_source.scripts().items()}
        ran = [words[1] for words in list(self.sent) if words[0] == 'EVALSHA']
        return collections.Counter(names.get(sha, 'unknown') for sha in ran)

    def close(self):
        with contextlib.suppress(OSError):
            self.connection.socket.shutdown(socket.SHUT_RDWR)
        self.thread.join(10)
        self.connection.close()


@contextlib.contextmanager
def _listening(redis):
    monitor = Monitor(redis.port)
    try:
        yield monitor
    finally:
        monitor.close()


def _let_in(redis, rules):
    redis('ACL', 'SETUSER', 'lists', 'on', '>secret', 'resetkeys', 'resetchannels', '-@all', *rules)


def _everything(c, seen):
    """All that two servers do with Redis, but for what its loss makes them do."""
    eq(c.get(0, '/a/1').status, 200)
    eq(c.get(1, '/a/1').status, 200)
    with c.generator.holding() as gate:
        futures = c.begin([(0, '/b/1')])
        wait_until(lambda: gate.arrived == 1, 'one leads')
        futures += c.begin([(1, '/b/1')])
        wait_until(lambda: c.metric(1, 'shared_waits_total') >= 1, 'the other waits')
        wait_until(lambda: seen.scripts()['renew'] >= 1, 'the lease is renewed')
        gate.open()
        for future in futures:
            eq(future.result(60).status, 200)
    c.generator.status = 500
    eq(c.get(0, '/c/1').status, 502)
    c.generator.status = 200
    eq(c.get(0, '/a', method='DELETE').status, 204)
    c.redis('SCRIPT', 'FLUSH')
    eq(c.get(0, '/e/1').status, 200)


def _redis_comes_back_empty(c, rules, seen):
    """A list that was made without it is offered to it. seen is listening before anybody is let in."""
    c.wait_redis(up=False)
    eq(c.get(0, '/f/1').status, 200)
    c.redis.start()
    with _listening(c.redis) as monitor:
        _let_in(c.redis, rules)
        c.wait_redis()
        wait_until(lambda: monitor.scripts()['offer'] >= 1, 'it is offered')
        with c.generator.holding() as gate:
            begun = c.begin([(1, '/g/1')])
            wait_until(lambda: gate.arrived == 1, 'it leads')
            c.servers[1].signal(15)
            wait_until(lambda: monitor.scripts()['abort'] >= 1, 'a leader that ends gives its lease back')
            gate.open()
            eq(begun[0].result(60).status, 503)
            eq(c.servers[1].wait_exit(), 0, 'it ends') # before the scene would ask it a second time
        calls = c.redis.calls()
    seen.sent += monitor.sent
    return calls


def _pages(c, origin, seen):
    """Who has a render notes it, who lacks it looks for the note, and who reads it notes it if nobody else has."""
    origin.page('A', (1, 'text'))
    first = c.servers[0].request('GET', '/localhost/v1/page/html/A?stash=true')
    eq(first.status, 200)
    name = first.headers['ETag'].strip('"')
    eq(c.servers[1].request('GET', f'/localhost/v1/page/html/A/{name}').status, 404)
    key = next(words[1] for words in seen.sent if words[0] == 'PSETEX')
    redis = c.redis.connect()                   # of another database than the one that is listened to
    redis('SET', key, 'http://127.0.0.1:2')
    redis('COPY', key, key, 'DB', 1, 'REPLACE')
    redis.close()
    eq(c.servers[1].request('GET', '/localhost/v1/page/html/A').status, 200)
    wait_until(lambda: seen.scripts()['note'] >= 1, 'it is noted again')


def _rules():
    """Of an ACL user, as the documentation has them."""
    return RULES.search((redis_source.ROOT / 'docs/several-servers.md').read_text()).group(1).split()


@scene
def everything_that_is_sent_is_in_redis_6_2(binary):
    rules = _rules()
    with Redis() as redis:
        docs = Docs(redis)
        _let_in(redis, rules)
        url = f'redis://lists:secret@127.0.0.1:{redis.port}/1'
        (redis.folder / 'secret').write_text('what these servers share')
        peers = ('--set', 'servers.advertise=http://127.0.0.1:1', '--set', f'servers.secret_file={redis.folder}/secret')
        with Origin() as origin, _listening(redis) as seen, Cluster(
                binary, 2, *LEASED, *peers, *origin.options('localhost'), redis=redis, url=url, patient=False,
                options={'displays_max': '1'}) as c:
            _everything(c, seen)
            _pages(c, origin, seen)
            calls = redis.calls()
            redis.end()
            calls.update(_redis_comes_back_empty(c, rules, seen))
    eq(set(seen.scripts()), set(redis_source.scripts()), 'scripts that ran')
    # MONITOR hides AUTH; this is its form in redis.c.
    check(calls['auth'] > 0, 'they said who they are')
    sent = seen.sent + [['AUTH', 'lists', 'secret']]
    names = {words[0] for words in sent}
    eq(names, redis_source.command_names(), 'what ran, and what the sources hold')
    own = {'monitor', 'acl|setuser', 'script|flush', 'command|docs', 'select', 'subscribe', 'set', 'copy'}
    missed = {name for name in calls if name not in own and name.partition('|')[0].upper() not in names}
    eq(missed, set(), 'commands that Redis counted and MONITOR did not show')
    eq([why for words in sent for why in docs.newer(words)], [], 'newer than 6.2.0')
    allowed = {rule[1:].partition('|')[0] for rule in rules if rule.startswith('+')}
    eq({name.lower() for name in names} - allowed, set(), 'commands that the documented rules leave out')


@scene
def scripts_use_of_redis_what_6_2_has(binary):
    del binary
    for name, text in redis_source.scripts().items():
        check(not text.startswith('#!'), f'{name}: flags of scripts came with 7.0')
        used = set(re.findall(r'\bredis\.(\w+)', text))
        eq(used - set(OF_SCRIPTS), set(), f'{name}: functions that nobody has looked at')
    check(all(_version(since) <= OLDEST for since in OF_SCRIPTS.values()), 'of scripts')


@scene
def what_is_newer_is_found(binary):
    """Or the scene above could not fail."""
    del binary
    with Redis() as redis:
        docs = Docs(redis)
    for command in ('SPUBLISH c m', 'PEXPIRE k 1 NX', 'INFO server memory', 'SET k v NX GET', 'EXPIRETIME k',
                    'FUNCTION LOAD x', 'EVAL_RO x 0', 'ZRANGESTORE2 k', 'BITCOUNT k 0 1 BIT', 'CLIENT NO-EVICT on',
                    'SCRIPT NOTHING', 'XAUTOCLAIM k g c 0 0'):
        check(docs.newer(command.split()), f'{command} passes for old')
    for command in ('PUBLISH c m', 'PEXPIRE k 1', 'INFO server', 'SCRIPT LOAD x', 'HSET k a 1 b 2', 'GETEX k PERSIST',
                    'COPY a b REPLACE'):
        eq(docs.newer(command.split()), [], command)


main()
