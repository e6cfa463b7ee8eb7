"""Goal: a wiki of kind rest answers out of a cache of its own. What the wiki touches is made anew once and is right, what
did not change is made no more; the wiki is told to empty its cache only where nothing else does, because that touches the
page, too.
Method: a scripted wiki whose cache is as MediaWiki 1.39 has it (origin.py). Its clock and the server's are moved together,
so a round of words takes no time; renders and purges are counted."""
import contextlib

from harness import Server, check, eq, main, scene, wait_until
from origin import Origin, instant
from render_help import NO_CACHE, Held, cache_of

ROUNDS = 6
OLD, NEW, NEWER = b'old template', b'new template', b'newer template'


class Wiki(Origin):
    def stamped(self, stamp):
        self.stamp = ' of the ' + stamp.decode()

    def touch(self, stamp, title='A'):
        """Its template is edited now."""
        self.stamped(stamp)
        self.touched[title] = instant(self.ahead)

    def kinds(self, since):
        return [kind for kind, *_ in self.seen[since:]]


@contextlib.contextmanager
def wiki(kind='rest', servers=1, **fields):
    """(wiki, servers) by (binary): A is stored, and was made long after its last touch."""
    with Wiki() as origin, contextlib.ExitStack() as stack:
        origin.page('A', (7, 'text'))
        origin.stamped(OLD)

        def start(binary):
            def one():
                return stack.enter_context(Server(binary, *origin.options('localhost', kind=kind, sweep_period='never', **fields),
                                                  test_hooks=True))
            return [one() for _ in range(servers)]
        yield origin, start


def get(server, headers=None, title='A'):
    answer = server.request('GET', f'/localhost/v1/page/html/{title}', headers)
    eq(answer.status, 200, answer.body[:200])
    return answer


def later(origin, seconds, *servers):
    origin.ahead += seconds
    for server in servers:
        server.clock(advance=f'{seconds}s')


def state(server):
    answer = server.json('POST', '/v1/admin.change.why', body={'domain': 'localhost', 'title': 'A'})
    return next(bucket for bucket in answer.body['buckets'] if bucket['bucket'] == 'page')['state']


def heard(origin, server):
    """A's next word is heard, behind a reader's answer."""
    words = origin.count('words')
    later(origin, 61, server)
    get(server)
    wait_until(lambda: origin.count('words') > words, 'the wiki is asked')
    wait_until(lambda: get(server).headers['Age'] in ('0', '1', '2'), 'its word is heard')


def rounds(origin, *servers, count=ROUNDS):
    """Words come and readers read, until nothing is left to be made."""
    for _ in range(count):
        for server in servers:
            heard(origin, server)
            wait_until(lambda server=server: get(server) and state(server) in ('fine', 'unsettled'), 'A is as the wiki has it')
        later(origin, 5, *servers)
        for server in servers:
            wait_until(lambda server=server: get(server) and state(server) == 'fine', 'it is settled, too')


@scene
def what_a_template_touched_is_made_once_and_purges_nothing(binary):
    with wiki() as (origin, start):
        server, = start(binary)
        check(OLD in get(server).body, 'as it was')
        rounds(origin, server)
        eq((origin.count('render'), origin.count('purge')), (1, 0))
        later(origin, 60, server)
        origin.touch(NEW)
        later(origin, 60, server)
        rounds(origin, server)
        check(NEW in get(server).body, 'the wiki dropped it from its cache by itself')
        eq((origin.count('render'), origin.count('purge')), (2, 0))


@scene
def who_asks_with_no_cache_has_it_purged_and_made_at_most_once_more(binary):
    with wiki() as (origin, start):
        server, = start(binary)
        get(server)
        later(origin, 60, server)
        origin.stamped(NEW)         # what no touch tells of
        eq(cache_of(get(server)), 'hit')
        before = len(origin.seen)
        anew = get(server, NO_CACHE)
        check(NEW in anew.body and cache_of(anew) == 'nocache', anew.headers)
        calls = [kind for kind in origin.kinds(before) if kind != 'words']
        rounds(origin, server)
        eq(origin.count('purge'), 1)
        check(origin.count('render') <= 3, f'{origin.count("render")} renders')
        eq(get(server).headers['ETag'], anew.headers['ETag'])
        # the word that it was made under knew of the purge, and was said before the render was asked for
        eq(calls, ['meta', 'purge', 'meta', 'render'])


@scene
def what_is_to_be_made_anew_whatever_the_wiki_says_is_purged(binary):
    with wiki(rerender_after='1h') as (origin, start):
        server, = start(binary)
        get(server)
        origin.stamped(NEW)
        later(origin, 3601, server)
        rounds(origin, server, count=1)
        check(NEW in get(server).body, 'by age')
        eq(origin.count('purge'), 1)
        origin.stamped(NEWER)
        later(origin, 60, server)
        eq(server.json('POST', '/v1/admin.change.redo', body={'domain': 'localhost'}).status, 200)
        rounds(origin, server)
        check(NEWER in get(server).body, 'by order')
        eq(origin.count('purge'), 2)
        check(origin.count('render') <= 5, f'{origin.count("render")} renders')


@scene
def a_redo_of_what_was_touched_too_is_purged(binary):
    """The touch alone would have it made of what the wiki put into its cache since."""
    with wiki() as (origin, start):
        server, = start(binary)
        get(server)
        later(origin, 60, server)
        origin.touch(NEW)
        later(origin, 60, server)
        origin.cached(7, lambda: 'what another reader of the wiki had made, of the old messages')
        eq(server.json('POST', '/v1/admin.change.redo', body={'domain': 'localhost'}).status, 200)
        rounds(origin, server, count=2)
        check(NEW in get(server).body, 'made anew')
        eq(origin.count('purge'), 1)


@scene
def what_was_begun_before_a_touch_and_ended_after_it_is_not_taken_for_new(binary):
    """The wiki counts it as made when its making ended, and goes on giving it: so that is purged."""
    for kind, purges in (('rest', 1), ('parsoid', 0)):
        with wiki(kind) as (origin, start):
            server, = start(binary)
            held = Held(server, origin, 'render', 'GET', '/localhost/v1/page/html/A')
            origin.touch(NEW)
            check(OLD in held.go().body, 'written before')
            rounds(origin, server)
            check(NEW in get(server).body, kind)
            eq(origin.count('purge'), purges)
            check(origin.count('render') <= 3, f'{kind}: {origin.count("render")} renders')


@scene
def what_was_made_anew_across_a_touch_is_not_taken_for_new(binary):
    """The same of a render that a word before had made anew, of one that a client had, and when the page is touched later in
    the making."""
    for headers in (None, NO_CACHE):
        with wiki() as (origin, start):
            server, = start(binary)
            get(server)
            later(origin, 60, server)
            origin.touch(NEW)
            later(origin, 60, server)
            if headers is None:
                words = origin.count('words')
                get(server)
                wait_until(lambda: origin.count('words') > words, 'the wiki is asked')
                wait_until(lambda: state(server) == 'touched', 'its word is heard')
            held = Held(server, origin, 'render', 'GET', '/localhost/v1/page/html/A', headers)
            later(origin, 8, server)
            origin.touch(NEWER)
            later(origin, 2, server)
            check(NEW in held.go().body, 'written before')
            rounds(origin, server)
            check(NEWER in get(server).body, f'{headers}')


@scene
def servers_that_know_nothing_of_each_other_do_not_purge_by_turns(binary):
    with wiki(servers=2) as (origin, start):
        first, second = start(binary)
        for server in (first, second):
            get(server)
        later(origin, 60, first, second)
        origin.stamped(NEW)
        get(first, NO_CACHE)
        rounds(origin, first, second)
        for server in (first, second):
            check(NEW in get(server).body, 'the purge told the other')
        eq(origin.count('purge'), 1)
        check(origin.count('render') <= 6, f'{origin.count("render")} renders')


@scene
def a_purge_that_a_copy_of_the_wikis_database_has_not_heard_of_is_not_repeated(binary):
    """The word behind the purge comes from a copy that is behind."""
    with wiki() as (origin, start):
        server, = start(binary)
        get(server)
        later(origin, 60, server)
        before = dict(origin.touched)
        gate = origin.gate('render')
        with gate:
            touched = []        # when the wiki was purged, which its copy hears of later
            origin.purge, purge = lambda title: touched.append(instant(origin.ahead)), origin.purge
            held = Held(server, origin, 'render', 'GET', '/localhost/v1/page/html/A', NO_CACHE, written=False)
            eq((origin.count('purge'), origin.touched), (1, before))
            origin.purge = purge
            origin.purge('A')
            origin.touched['A'] = touched[0]
        check(OLD in held.go().body, 'made')
        rounds(origin, server)
        eq(origin.count('purge'), 1)
        check(origin.count('render') <= 4, f'{origin.count("render")} renders')


if __name__ == '__main__':
    main()
