"""Goal: a person who types what README.md and docs/quickstart say sees what these pages show.
Method: the commands of each page are run in order by a shell (walk_help.py), and their output is compared. Redis, Varnish and
an older server of queues are real; ports and folders are others. What needs a wiki is in test/e2e/scene_quickstart.py, what
needs Cassandra in test/cassandra/scene_quickstart.py."""
import os
import re
import shutil

from harness import Server, check, eq, free_port, main, scene
from list_help import Redis
from walk_help import ROOT, Walk, blocks, steps

QUICK = ROOT / 'docs/quickstart'


def page(name):
    return (QUICK / name).read_text()


def ports(*shown):
    return {str(port): free_port() for port in shown}


def nothing():
    """The binary is built already."""


@scene
def what_the_readme_shows_is_so(binary):
    text = (ROOT / 'README.md').read_text()
    with Walk(binary, text, {**ports(7231), '/tmp/demo': 'demo'}, {'script/build': nothing}) as walk:
        check(walk.go('An example') >= 8, 'commands of the example')


@scene
def the_readme_opens_with_two_commands_and_fits_a_screen(_):
    lines = (ROOT / 'README.md').read_text().splitlines()
    eq([line.split()[0] for line in lines[2:4]], ['script/run', 'script/test'])
    before = lines.index('## Quick starts')
    check(before <= 64, f'{before} lines before the quick starts')
    named = set(re.findall(r'docs/quickstart/(\w+\.md)', '\n'.join(lines)))
    eq(named, {path.name for path in QUICK.glob('*.md')})


@scene
def a_queue_is_made_and_moved(binary):
    redis, old = Redis(), Server(binary)
    try:
        old.json('POST', '/v1/queues.create', body={'queue_name': 'mail', 'lease_timeout': '1m', 'expire_timeout': '24h',
                                                    'requested_partitions': 1})
        for word in ('old one', 'old two', 'old three'):
            old.json('POST', '/v1/queue.produce', body={'queue_name': 'mail', 'request_timeout': '5s', 'items': [{'utf8': word}]})
        for word in ('job 1', 'job 2'):
            redis('RPUSH', 'jobs', word)
        swap = {**ports(7231), '2319': old.port, '6379': redis.port}
        with Walk(binary, page('queue.md'), swap) as walk:
            check(walk.go() >= 12, 'commands')
    finally:
        redis.end()
        old.close()


@scene
def a_cache_in_front_is_purged(binary):
    with Walk(binary, page('cdn.md'), ports(7231, 6081)) as walk:
        check(walk.go() >= 8, 'commands')


@scene
def each_block_of_a_quick_start_is_run(_):
    """A block that is neither a session nor a file would be shown and never tried."""
    for path in sorted(QUICK.glob('*.md')):
        for section, block in blocks(path.read_text()):
            check(steps(block), f'{path.name}, {section}: {block[0]}')


if not os.access('/usr/sbin/varnishd', os.X_OK) or not shutil.which('redis-cli'):
    raise SystemExit('varnishd or redis-cli is missing; script/deps test has them')
main()
