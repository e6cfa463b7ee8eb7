"""Goal: tables do what docs/api.md says, whatever is asked in whatever order: each answer of the server is the one of a
model in memory (table_model.py), status, rows, order, pages, ends.
Method: random schemas of every type with ranges, descending, statics, indexes and policies (table_draw.py); puts,
conditions, batches, deletes, queries, pages with writes between them, migrations, drops, a clock that is moved, kill -9
and restarts; everything is compared now and then. What a write or a migration leaves to the background is over before
the next step; now and then there are reads before that, which must give all that stays and may give what will fall out,
and kill -9 or restarts in the middle of it, after which the end must be the same.
All choices follow from a seed, and a failure names it and the step.
SEED (1) is the first seed, TABLE_SEEDS (3) how many, TABLE_STEPS (300) how long each is gone on with; more steps begin
with the same. TABLE_HISTORY=FILE keeps all requests with their answers, instants and starts.
The long form is SCENE_TIMEOUT=36000 SEED=1000 TABLE_SEEDS=100 TABLE_STEPS=1500."""
import http.client
import json
import os
import random

from harness import REQUEST_TIMEOUT, SceneError, check, eq, main, scene
from page_help import instant, page_server
from table_draw import Draw, Mix
from table_model import Between, Table, perform
from table_values import TYPES, read

SEED = int(os.environ.get('SEED', '1'))
SEEDS = int(os.environ.get('TABLE_SEEDS', '3'))
STEPS = int(os.environ.get('TABLE_STEPS', '300'))
HISTORY = os.environ.get('TABLE_HISTORY')
TABLES_BEGUN, TABLES_MIN, TABLES_MAX = 5, 3, 8
PAGES_MAX = 12
BATCHES = 1, 2, 3, 5, 10
# How often the background is watched, or the server ended, before it is over.
WATCHED, WATCHED_HEAP, ENDED_AFTER_FEW, ENDED_AFTER_MANY = 0.1, 0.5, 0.02, 0.25

MIXED = Mix((None, None, None, 'all', 'latest', 'interval', 'latest_hash', 'ttl'), 0.35, {
    'put': 500, 'get': 260, 'batch': 90, 'delete': 60, 'page': 35, 'clock': 20, 'compare': 12, 'wrong_batch': 10,
    'migrate': 10, 'drop': 5, 'kill': 4, 'crowd': 2, 'heap': 1})
POLICIES = Mix(('latest', 'latest', 'interval', 'latest_hash', 'ttl', 'all'), 0.8, {
    'put': 500, 'get': 140, 'batch': 100, 'delete': 100, 'clock': 80, 'migrate': 30, 'page': 20, 'compare': 15,
    'crowd': 10, 'heap': 3, 'wrong_batch': 5, 'drop': 5, 'kill': 4})

WRONG = ({'op': 'put', 'table': 'none', 'attributes': {'a': 1}}, {'op': 'swap'}, 5)


class World:
    """A server and the model of it. A step is a method do_NAME."""

    def __init__(self, server, seed, mix):
        self.server, self.mix, self.rng = server, mix, random.Random(seed)
        self.draw = Draw(self.rng, mix)
        self.now, self.step, self.made, self.tables = 0, 0, 0, []       # now: seconds after the start of the server
        self.keys = [[self.rng.choice(TYPES) for _ in range(self.rng.choice((1, 1, 2)))] for _ in range(2)]

    def run(self, steps):
        for _ in range(TABLES_BEGUN):
            self.create()
        names, weights = list(self.mix.steps), list(self.mix.steps.values())
        for self.step in range(steps):
            [name] = self.rng.choices(names, weights)
            getattr(self, f'do_{name}')()
        self.do_compare()
        self.do_kill()
        self.do_compare()

    def note(self, *what):
        if HISTORY:
            with open(HISTORY, 'a', encoding='utf-8') as file:
                file.write(json.dumps([self.step, *what]) + '\n')

    # ---- requests

    def ask(self, method, path, body=None):
        """(status, parsed body)"""
        sent = None if body is None else json.dumps(body)
        got = self.server.request_again(method, f'/localhost/v1/{path}', body=sent)
        self.note(method, path, body, got.status, got.body.decode())
        return got.status, json.loads(got.body) if got.body else None

    def write(self, path, body, operations):
        """Sends what is one step to the model, and compares."""
        loose = {table: table.loose() for table in {operation.table: None for operation in operations}}
        status, got = self.ask('POST', path, body)
        outcome = perform(operations, self.now)
        if outcome == 'applied':
            perform([operation._replace(table=loose[operation.table]) for operation in operations], self.now)
        said = {} if got is None else {'applied': got.get('applied')}
        want = {'applied': 201, 'unmet': 201, 'expired': 410}[outcome]
        eq(status, 204 if path.endswith('/delete') else want, f'{outcome}: {got} to {path} {body}')
        if status == 201 and said:
            eq(said, {'applied': outcome == 'applied'}, f'{path} {body}')
        if status == 201 and (path == 'batch' or 'if' in body):
            check(said, f'nothing said of whether it applied to {path} {body}')
        if any(operation.table.schema.policy['type'] not in ('all', 'ttl') for operation in operations):
            self.background(loose, ENDED_AFTER_FEW if len(operations) <= max(BATCHES) else ENDED_AFTER_MANY)

    def settle(self):
        """Waits until the upkeep has done what there is to do."""
        self.server.clock(freeze=instant(self.now))
        self.note('clock', instant(self.now))

    def background(self, loose, ended, watched=WATCHED, migrated=False):
        """As settle; before that reads, kill -9 and restarts, while the upkeep is to come or at it.
        loose: of each table concerned one that lets nothing go."""
        compares = False
        while (ends := self.draw.chance(ended)) or self.draw.chance(watched):
            begun = None
            if self.draw.chance(0.5):
                begun = http.client.HTTPConnection(self.server.host, self.server.port, timeout=REQUEST_TIMEOUT)
                begun.request('POST', '/v1/test.clock', json.dumps({'freeze': instant(self.now)}))
            for _ in range(self.rng.choice((0, 1, 3))):
                self.watch(loose, migrated)
            if ends:
                self.start_again()
            elif begun:
                eq(begun.getresponse().status, 200, 'test.clock')
            if begun:
                begun.close()
            compares |= ends
        self.settle()
        if compares:
            self.do_compare(loose)

    def table(self):
        return self.rng.choice(self.tables)

    # ---- tables

    def create(self, name=None, schema=None):
        if name is None:
            name, self.made = f't{self.made}', self.made + 1
        schema = schema or self.draw.schema(self.rng.choice(self.keys))
        status, got = self.ask('PUT', f'table/{name}', schema)
        eq(status, 201, f'{got} to table/{name} {schema}')
        self.tables.append(Table(name, schema))

    def do_drop(self):
        """One goes, or another comes; or one goes and comes again, empty."""
        table = self.table()
        if len(self.tables) == TABLES_MIN or self.draw.chance(0.4):
            return self.create() if len(self.tables) < TABLES_MAX else None
        self.tables.remove(table)
        eq(self.ask('DELETE', f'table/{table.name}'), (204, None), f'drop of {table.name}')
        if self.draw.chance(0.5):
            self.create(table.name, {**table.schema.json, 'version': 1})
        return None

    def do_migrate(self):
        table = self.table()
        what, schema = self.draw.next_schema(table)
        self.migrate(table, schema)
        if what == 'attributes' and self.draw.chance(0.3):      # back to what it had: what was dropped is gone
            self.migrate(table, {**schema, 'version': schema['version'] + 1,
                                 'attributes': {**table.schema.types, **schema['attributes']}})

    def migrate(self, table, schema, watched=WATCHED):
        status, got = self.ask('PUT', f'table/{table.name}', schema)
        eq(status, 201, f'{got} to table/{table.name} {schema}')
        loose = table.loose()
        for one in (table, loose):
            one.migrate(schema, self.now)
        self.background({table: loose}, ENDED_AFTER_MANY, watched, migrated=True)

    # ---- writes

    def do_put(self):
        table = self.table()
        request, put = self.draw.put(table)
        self.write(f'table/{table.name}/put', request, [put])

    def do_delete(self):
        table = self.table()
        request, delete = self.draw.delete(table)
        self.write(f'table/{table.name}/delete', request, [delete])

    def batch(self):
        """(request, operations) on one partition of all tables whose hash attributes are of the same types."""
        hash_types = lambda table: [table.schema.types[name] for name in table.schema.hash]
        chosen = self.table()
        tables = [table for table in self.tables if hash_types(table) == hash_types(chosen)]
        partition, body, operations = self.draw.partition(chosen.schema), [], []
        for _ in range(self.rng.choice(BATCHES)):
            table, kind = self.rng.choice(tables), self.rng.choices(('put', 'delete'), (3, 1))[0]
            request, operation = getattr(self.draw, kind)(table, partition)
            body.append({'op': kind, 'table': table.name, **request})
            operations.append(operation)
        return body, operations

    def do_batch(self):
        self.write('batch', *self.batch())

    def do_wrong_batch(self):
        """One that cannot be done takes the others with it."""
        body, _ = self.batch()
        body.append(self.rng.choice((*WRONG, {'op': 'put', 'table': body[0]['table'], 'attributes': {}})))
        status, got = self.ask('POST', 'batch', body)
        check(status in (400, 404), f'{status} {got} to {body}')

    def do_crowd(self):
        """More versions at once than one put sees to, and puts beside them."""
        able = [table for table in self.tables if table.schema.version]
        if able:
            table = self.rng.choice(able)
            partition = self.draw.partition(table.schema)
            requests, puts = self.draw.crowd(table, partition)
            self.write('batch', [{'op': 'put', 'table': table.name, **request} for request in requests], puts)
            for _ in range(3):
                request, put = self.draw.put(table, partition)
                self.write(f'table/{table.name}/put', request, [put])

    def do_heap(self):
        """More versions than one step of the background sees to, and a policy that lets most of them go."""
        able = [table for table in self.tables if table.schema.version]
        if able:
            table = self.rng.choice(able)
            self.set_policy(table, 'all')
            for requests, puts in self.draw.heap(table, self.draw.partition(table.schema)):
                self.write('batch', [{'op': 'put', 'table': table.name, **request} for request in requests], puts)
            if self.draw.chance(0.3):
                self.do_clock()
            self.set_policy(table, self.rng.choice(('latest', 'latest', 'interval', 'ttl')))

    def set_policy(self, table, kind):
        schema = {**table.schema.json, 'version': table.schema.json['version'] + 1}
        self.draw.set_policy(schema, kind)
        if 'grace_ttl' in schema.get('revisionRetentionPolicy', {}) and self.draw.chance(0.7):
            schema['revisionRetentionPolicy']['grace_ttl'] = 0      # they go at once, and are seen to
        self.migrate(table, schema, WATCHED_HEAP)

    # ---- time

    def do_clock(self):
        self.now += self.rng.choice((1, 1, 2, 5, 10, 30))
        self.settle()
        for table in self.tables:
            table.expire(self.now)

    def do_kill(self):
        """The end of the server and another start; now and then rows end meanwhile, which it finds then."""
        if self.draw.chance(0.3):
            self.now += self.rng.choice((1, 5, 30))
        self.start_again()
        for table in self.tables:
            table.expire(self.now)

    def start_again(self):
        """Now and then the end is as it should be."""
        eq(*((self.server.sigterm(), 0) if self.draw.chance(0.2) else (self.server.kill9(), -9)), 'exit code')
        self.note('start', instant(self.now))
        self.server.test_hooks = instant(self.now)
        self.server.start()

    # ---- reads

    def page(self, table, query):
        """(items, next) of one answer."""
        status, got = self.ask('POST', f'table/{table.name}/get', query)
        what = f'{got} to {table.name} {query}'
        check('items' in (got or {}) and 'damaged' not in got, f'{status} {what}')
        eq(status, 200 if got['items'] or 'next' in got else 404, what)
        check(len(got['items']) <= query.get('limit', len(got['items'])), f'more than asked for: {what}')
        types = {**table.schema.types, '_ttl': 'int'}
        rows = [{name: read(types[name], value) for name, value in item.items()} for item in got['items']]
        return rows, got.get('next')

    def rows(self, table, query, most):
        """All pages of an answer, unless they do not end."""
        rows, token = self.page(table, query)
        while token is not None and len(rows) <= most:
            more, token = self.page(table, {**query, 'next': token})
            rows += more
        return rows

    def compare(self, table, query, found, shown):
        """The rows that a query gives are those found, in that order, with the attributes shown."""
        want = [{name: one.values[name] for name in shown} for one in found]
        if query.get('withTTL'):
            for row, one in zip(want, found):
                row.update({} if one.ttl is None else {'_ttl': one.ttl})
        got = self.rows(table, query, len(want))
        if got != want:
            at = next((i for i, (one, other) in enumerate(zip(got, want)) if one != other), min(len(got), len(want)))
            raise SceneError(f'{table.name} {query}: {len(got)} rows, want {len(want)}; the first other is row {at}: '
                             f'{str(got[at:at + 1])[:600]}, want {str(want[at:at + 1])[:600]}; {table.schema.json}')

    def do_compare(self, tables=None):
        for table in tables or self.tables:
            for index, order in table.schema.orders.items():
                query = {'withTTL': True, **({'index': index} if index else {})}
                self.compare(table, query, table.select(index, {}, self.now), order.shown)

    def watch(self, loose, migrated):
        """What a get gives before the background is over: of a table that was migrated without its new indexes."""
        table = self.rng.choice(list(loose))
        query, index, backward, found = self.question(table, self.rng.choice((0, 0.8)), indexed=not migrated)
        between, order = Between(table, loose[table], found), table.schema.orders[index]
        if self.draw.chance(0.3):
            query['limit'] = self.rng.choice((1, 2, 3, 50))
        rows = self.rows(table, query, between.count)
        places = [order.place(row) for row in rows]
        what = f'{table.name} {query} before the background is over; {table.schema.json}'
        eq(places, sorted(set(places), reverse=backward), f'in order, {what}')
        for place, row in zip(places, rows):
            allowed = [{name: values[name] for name in order.shown} for values in between.allowed.get(place, ())]
            check(row in allowed, f'{str(row)[:600]} is none of {str(allowed)[:600]}: {what}')
        eq([place for place in between.must if place not in set(places)], [], f'rows that stay, {what}')

    def question(self, table, asks=0.8, indexed=True):
        """(query, the index it is of, whether backward, a function that says what it must give now)"""
        indexes = [name for name in table.schema.orders if name and indexed]
        index = self.rng.choice(indexes) if indexes and self.draw.chance(0.5) else None
        order, query, predicates, backward = table.schema.orders[index], {}, {}, False
        if index:
            query['index'] = index
        if self.draw.chance(asks):
            query['attributes'], predicates = self.draw.predicates(table.schema, order)
        if order.range and self.draw.chance(0.35):
            query['order'], backward = self.draw.backward(order)
        return query, index, backward, lambda held=table: held.select(index, predicates, self.now, backward)

    def do_get(self):
        table, chance = self.table(), self.draw.chance
        query, index, _, found = self.question(table)
        found, order = found(), table.schema.orders[index]
        shown = order.shown
        if chance(0.12):
            query['distinct'], shown = True, order.hash
            found = table.partitions(found, index)
        elif chance(0.4):
            shown = self.rng.sample(shown, self.rng.randint(1, len(shown)))
            query['proj'] = shown[0] if len(shown) == 1 and chance(0.5) else shown
        if chance(0.3):
            query['withTTL'] = True
        if chance(0.6):
            query['limit'] = self.rng.choice((1, 2, 3, 7))
        self.compare(table, query, found, shown)

    def do_page(self):
        """Pages with writes between them give each row that is there all the time once, and only what is there."""
        table = self.table()
        query, index, backward, found = self.question(table)
        query['limit'], order = self.rng.choice((1, 2, 3)), table.schema.orders[index]
        steady, last, token = None, None, None
        for _ in range(PAGES_MAX):
            there = {one.place: {name: one.values[name] for name in order.shown} for one in found()}
            steady = set(there) if steady is None else steady & set(there)
            rows, token = self.page(table, {**query, **({'next': token} if token else {})})
            places = [order.place(row) for row in rows]
            ahead = [place for place in there if last is None or (place < last if backward else last < place)]
            what = f'{table.name} {query} after {last}: {rows}'
            eq([there.get(place) for place in places], rows, f'what is there, {what}')
            eq(places, [place for place in ahead if place in places], f'in order, {what}')
            passed = ahead if token is None else ahead[:ahead.index(places[-1])] if places else []
            eq([place for place in passed if place in steady and place not in places], [], f'passed over, {what}')
            if token is None:
                break
            last = places[-1] if places else last
            for _ in range(self.rng.randrange(4)):
                self.rng.choice((self.do_put, self.do_delete))()


def run(binary, mix):
    for seed in range(SEED, SEED + SEEDS):
        print(f'seed {seed}, {STEPS} steps', flush=True)
        with page_server(binary) as server:
            world = World(server, seed, mix)
            try:
                world.run(STEPS)
            except Exception as error:
                where = f'SEED={seed} TABLE_SEEDS=1 TABLE_STEPS={STEPS}, step {world.step}'
                raise SceneError(f'{where}: {type(error).__name__}: {error}') from error


@scene
def tables_answer_as_their_model(binary):
    run(binary, MIXED)


@scene
def tables_with_policies_answer_as_their_model(binary):
    run(binary, POLICIES)


main()
