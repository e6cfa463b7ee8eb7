"""Goal: it is known how late a reader sees what somebody saved, whichever of four servers answers. Method: a real MediaWiki,
four servers without and with a Redis, on a store each or, with SCENE_CASSANDRA, on one for all. All four have the page
ready, somebody saves another text, and each server is read until it has the text. Run by name: it measures."""
import time

from rig import DOMAIN, TRUST_TTL, Pair, another_second, purged_at, quote, scene
from harness import check, eq, main, wait_until
import shared_store

COUNT, EDITS = 4, 8
SHOWN_S = 30            # in which each server has the text


def purges(to):
    """Settings of a wiki that purges pages at so many of the servers."""
    def settings(pair):
        return '$wgUseCdn = true; $wgCdnServers = [ %s ];' % ', '.join(f"'{purged_at(server)}'" for server in pair.servers[:to])
    return settings


def shown(server, title, text):
    answer = server.request_again('GET', f'/{DOMAIN}/v1/page/html/{quote(title)}')
    eq(answer.status, 200, answer.body[:200])
    return text in answer.body


def edit(pair, title, n):
    """When each server had what this edit saved, in seconds behind the wiki's answer."""
    for server in pair.servers:
        for _ in range(2):
            eq(server.request('GET', f'/{DOMAIN}/v1/page/html/{quote(title)}').status, 200)
    another_second()
    text, missing, took = f'edit {n}', dict(enumerate(pair.servers)), {}
    pair.wiki.edit(title, text)
    saved = time.monotonic()

    def everywhere():
        for number, server in list(missing.items()):
            if shown(server, title, text.encode()):
                took[number] = time.monotonic() - saved
                del missing[number]
        return not missing
    wait_until(everywhere, f'{text} at all servers', timeout=SHOWN_S)
    return [took[number] for number in range(COUNT)]


def measure(binary, what, **named):
    with Pair(binary, count=COUNT, **named) as pair:
        title = f'Saved_{time.time_ns()}'
        pair.wiki.edit(title, 'edit 0')
        all_took = sorted(max(edit(pair, title, n)) for n in range(1, EDITS + 1))
        check(len(all_took) == EDITS, all_took)
        print(f'{what}, until the last of {COUNT} servers has it: median {all_took[EDITS // 2]:.2f} s, '
              f'worst of {EDITS} edits {all_took[-1]:.2f} s', flush=True)


def told(binary, what, to, **named):
    measure(binary, what, change={'purge_listen': '127.0.0.1:0'}, settings=purges(to), trust_ttl='1h', trust_max='1h', **named)


@scene
def a_wiki_that_tells_one_server_tells_all_through_redis(binary):
    told(binary, 'one server is told, Redis', 1)


@scene
def a_wiki_that_tells_all_servers_needs_no_redis(binary):
    told(binary, 'all servers are told, no Redis', COUNT, redis=False)


@scene
def a_wiki_that_tells_nobody_is_asked_when_trust_is_over(binary):
    measure(binary, f'nobody is told, trust of {TRUST_TTL} s', redis=False)


if shared_store.place():
    @scene
    def a_wiki_that_tells_one_server_tells_all_through_the_store(binary):
        told(binary, 'one server is told, no Redis', 1, redis=False)

main()
