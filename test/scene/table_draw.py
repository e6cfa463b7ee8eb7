"""Random tables and requests for them: each request as JSON beside what it means to the model (table_model.py).

Values are few and drawn again and again, in other notations, so that rows meet. All choices are those of one generator.
"""
import collections
import copy

from table_model import Delete, Put, Schema
from table_values import SAMPLES, START_TICKS, TICKS_PER_HOUR, TYPES, json_key, timeuuid

# What a run is about. policies: None for a schema without one; versions: how often rows have one; steps: name -> weight.
Mix = collections.namedtuple('Mix', 'policies versions steps')

LARGE = (1000, 1030, 3000, 40000)       # characters: some lie in the index, some in the log
CROWD_MAX = 80
HEAP_BATCHES, HEAP_MIN, HEAP_MAX = 3, 190, 250     # more than two steps of the background change
OPERATORS = ('lt', 'le', 'gt', 'ge', 'between')


def _large(kind, letter, count):
    text = letter * count
    return ([text], json_key([text])) if kind == 'json' else (text, text.encode())


class Draw:
    def __init__(self, rng, mix):
        self.rng, self.mix = rng, mix
        self.span = rng.choice((2, 3, 5))       # of most values

    def chance(self, probability):
        return self.rng.random() < probability

    # ---- values

    def kind(self):
        kind = self.rng.choice(TYPES)
        return kind if self.chance(0.75) else f'set<{kind}>'

    def sample(self, kind):
        """(notations, key)"""
        every = kind == 'timeuuid' or self.chance(0.3)
        return self.rng.choice(SAMPLES[kind] if every else SAMPLES[kind][:self.span])

    def value(self, kind, null=0.15):
        """(notation, key)"""
        if self.chance(null):
            return None, None
        if kind.startswith('set<'):
            several = [self.value(kind[4:-1], 0) for _ in range(self.rng.choice((0, 1, 2, 3, 6)))]
            return [notation for notation, _ in several], tuple(sorted({key for _, key in several})) or None
        notations, key = self.sample(kind)
        return self.rng.choice(notations), key

    def attribute(self, schema, name, null=0.15):
        """As value(), for an attribute; those named b... are large now and then, and no index is by them."""
        if name.startswith('b') and self.chance(0.3):
            return _large(schema.types[name], self.rng.choice('abcd'), self.rng.choice(LARGE))
        return self.value(schema.types[name], null)

    def equal(self, kind, notation):
        """A predicate or condition; the members of a bare json would be taken for operators."""
        bare = self.chance(0.5) and not (kind == 'json' and isinstance(notation, dict))
        return notation if bare else {self.rng.choice(('eq', 'EQ')): notation}

    # ---- schemas

    def schema(self, hash_types):
        policy = self.rng.choice(self.mix.policies)
        types = {f'h{i}': kind for i, kind in enumerate(hash_types)}
        index = [{'attribute': name, 'type': 'hash'} for name in types]
        for i in range(self.rng.choice((0, 1, 1, 2, 2, 3))):
            types[f'r{i}'] = self.rng.choice(TYPES)
            index.append({'attribute': f'r{i}', 'type': 'range', **self.order()})
        if policy in ('latest', 'interval') or self.chance(self.mix.versions):
            types['tid'] = 'timeuuid'
            index.append({'attribute': 'tid', 'type': 'range', 'order': 'desc'})
        if len(index) > len(hash_types) and self.chance(0.5):
            for i in range(self.rng.choice((1, 2))):
                types[f's{i}'] = self.kind()
                index.append({'attribute': f's{i}', 'type': 'static'})
        types.update({f'p{i}': self.kind() for i in range(self.rng.randrange(5))})
        if self.chance(0.2):
            types['b0'] = self.rng.choice(('blob', 'json', 'string'))
        if self.chance(0.4):
            self.rng.shuffle(index)
        json = {'version': 1, 'attributes': dict(self.shuffled(types.items())), 'index': index}
        if self.chance(0.15):
            json['options'] = {'default_time_to_live': self.rng.choice((0, 5, 100))}
        self.set_policy(json, policy)
        self.set_indexes(json)
        return json

    def order(self):
        return {'order': self.rng.choice(('asc', 'desc'))} if self.chance(0.8) else {}

    def shuffled(self, items):
        items = list(items)
        self.rng.shuffle(items)
        return items

    def set_policy(self, json, kind):
        """Puts a policy of that kind in place of what there was, or none where the key does not allow it."""
        json.pop('revisionRetentionPolicy', None)
        schema = Schema(json)
        policy = {'type': kind}
        if kind in ('latest', 'interval') and schema.version:
            policy.update(count=self.rng.randint(1, 3), grace_ttl=self.rng.choice((0, 1, 10, 10, 100)))
            if kind == 'interval':
                policy['interval'] = self.rng.choice((60, 1800, 3600, 7200, 7 * 86400))
        elif kind == 'latest_hash' and len(schema.orders[None].range) > (1 if schema.version else 0):
            json.pop('secondaryIndexes', None)
            if self.chance(0.5):
                policy['grace_ttl'] = self.rng.choice((0, 10))
        elif kind == 'ttl':
            policy['ttl'] = self.rng.choice((3, 30))
        elif kind != 'all':
            return
        json['revisionRetentionPolicy'] = policy

    def set_indexes(self, json):
        """Other indexes than there were; latest_hash goes with none."""
        json.pop('secondaryIndexes', None)
        schema = Schema(json)
        if schema.policy['type'] == 'latest_hash':
            return
        able = [name for name in schema.key + schema.plain
                if not schema.types[name].startswith('set<') and not name.startswith('b')]
        made = {f'x{i}': self.index(schema, able) for i in range(self.rng.choice((0, 0, 1, 1, 2, 3)))}
        if made:
            json['secondaryIndexes'] = made

    def index(self, schema, able):
        able = self.shuffled(able)
        hashed, able = able[:(count := self.rng.choice((1, 1, 2)))], able[count:]
        ranged = able[:self.rng.choice((0, 1, 2))]
        entries = [{'attribute': name, 'type': 'hash'} for name in hashed]
        entries += [{'attribute': name, 'type': 'range', **self.order()} for name in ranged]
        entries += [{'attribute': name, 'type': 'proj'} for name in schema.types
                    if name not in hashed + ranged and self.chance(0.15 if name in schema.key else 0.4)]
        return self.shuffled(entries) if self.chance(0.3) else entries

    def next_schema(self, table):
        """(what changes, the schema of a migration)"""
        json = copy.deepcopy(table.schema.json)
        json['version'] += 1
        what = self.rng.choice(('attributes', 'attributes', 'indexes', 'ttl', 'policy', 'policy'))
        if what == 'attributes':
            named = {entry['attribute'] for entries in json.get('secondaryIndexes', {}).values() for entry in entries}
            free = [name for name in table.schema.plain if name not in named]
            if free and self.chance(0.5):
                del json['attributes'][self.rng.choice(free)]
            else:
                json['attributes'].setdefault(f'p{self.rng.randrange(10)}', self.kind())
        elif what == 'indexes':
            self.set_indexes(json)
        elif what == 'ttl':
            json['options'] = {'default_time_to_live': self.rng.choice((0, 20))}
        else:
            self.set_policy(json, self.rng.choice(self.mix.policies))
        return what, json

    # ---- writes

    def partition(self, schema):
        """Of each hash attribute a sample."""
        return [self.sample(schema.types[name]) for name in schema.hash]

    def key_values(self, schema, names, partition):
        """name -> (notation, key) of key attributes; of those of a partition, if there is one, its samples."""
        drawn = {}
        for name in names:
            if partition and name in schema.hash:
                notations, key = partition[schema.hash.index(name)]
                drawn[name] = self.rng.choice(notations), key
            else:
                drawn[name] = self.value(schema.types[name], 0)
        return drawn

    def put(self, table, partition=None):
        """(request, Put)"""
        schema = table.schema
        drawn = self.key_values(schema, schema.key, partition)
        drawn.update({name: self.attribute(schema, name) for name in schema.static if self.chance(0.3)})
        drawn.update({name: self.attribute(schema, name) for name in schema.plain if self.chance(0.7)})
        request = {'attributes': {name: notation for name, (notation, _) in self.shuffled(drawn.items())}}
        ttl = self.rng.choice((1, 5, 11, 50, 200)) if self.chance(0.15) else 0
        if ttl:
            (request if self.chance(0.5) else request['attributes'])['_ttl'] = ttl
        condition = self.condition(schema, request) if self.chance(0.15) else None
        return request, Put(table, {name: key for name, (_, key) in drawn.items()}, ttl, condition)

    def condition(self, schema, request):
        if self.chance(0.4):
            request['if'] = self.rng.choice(('not exists', 'NOT EXISTS'))
            return 'not exists'
        names = self.rng.sample(list(schema.types), min(len(schema.types), self.rng.choice((1, 1, 2))))
        drawn = {name: self.value(schema.types[name]) for name in names}
        request['if'] = {name: self.equal(schema.types[name], notation) for name, (notation, _) in drawn.items()}
        return {name: key for name, (_, key) in drawn.items()}

    def delete(self, table, partition=None):
        """(request, Delete)"""
        schema, ranged = table.schema, table.schema.orders[None].range
        ranged = ranged[:self.rng.randrange(len(ranged) + 1)]
        last = ranged.pop() if ranged and self.chance(0.5) else None
        drawn = self.key_values(schema, schema.hash + ranged, partition)
        wanted = {name: self.equal(schema.types[name], notation) for name, (notation, _) in drawn.items()}
        predicates = {name: [('eq', key)] for name, (_, key) in drawn.items()}
        if last:
            wanted[last], predicates[last] = self.bounds(schema.types[last])
        return {'attributes': wanted}, Delete(table, predicates)

    def crowd(self, table, partition):
        """(requests, puts): many versions of one row, short-lived or not, behind one that lasts."""
        return self.versions(table, *self.put(table, partition), self.rng.randint(CROWD_MAX // 8, CROWD_MAX))

    def heap(self, table, partition):
        """Crowds of one row, of its key alone: together more than a step of the background changes."""
        request, put = self.put(table, partition)
        request, values = ({name: held[name] for name in table.schema.key} for held in (request['attributes'], put.values))
        return [self.versions(table, {'attributes': request}, put._replace(values=values),
                              self.rng.randint(HEAP_MIN, HEAP_MAX), i * HEAP_MAX) for i in range(HEAP_BATCHES)]

    def versions(self, table, request, put, count, start=0):
        """A crowd of what a put names."""
        name, ttl, requests, puts = table.schema.version, self.rng.choice((0, 5)), [], []
        attributes = {named: value for named, value in request['attributes'].items() if named != '_ttl'}
        for i in range(count):
            text, key = timeuuid(START_TICKS + TICKS_PER_HOUR // 4 + start + i, 0x8000000000000002)
            life = {'_ttl': ttl} if ttl and i > 0 else {}
            requests.append({'attributes': {**attributes, name: text}, **life})
            puts.append(Put(table, {**put.values, name: key}, life.get('_ttl', 0), None))
        return requests, puts

    # ---- reads

    def bounds(self, kind):
        """(request, predicates) of a range, now and then of an empty one."""
        wanted, predicates = {}, []
        for operator in self.rng.sample(OPERATORS, self.rng.choice((1, 1, 1, 2))):
            notation, key = self.value(kind, 0)
            name = self.rng.choice((operator, operator.upper()))
            if operator == 'between':
                (notation, key), (other, end) = sorted(((notation, key), self.value(kind, 0)), key=lambda one: one[1],
                                                       reverse=self.chance(0.1))
                wanted[name], predicates = [notation, other], predicates + [('ge', key), ('le', end)]
            else:
                wanted[name], predicates = notation, predicates + [(operator, key)]
        return wanted, predicates

    def predicates(self, schema, order):
        """(request, predicates) on some attributes of an order, on one at most other than equality."""
        wanted, predicates, ranged = {}, {}, False
        for name in order.attributes:
            if not self.chance(0.75 if name in order.hash else 0.45):
                continue
            if name in order.range and not ranged and self.chance(0.6):
                wanted[name], predicates[name] = self.bounds(schema.types[name])
                ranged = True
            else:
                notation, key = self.value(schema.types[name], 0)
                wanted[name], predicates[name] = self.equal(schema.types[name], notation), [('eq', key)]
        return wanted, predicates

    def backward(self, order):
        """(order of a request, whether it is the reverse)"""
        backward = self.chance(0.5)
        names = order.range[:self.rng.randint(1, len(order.range))]
        return {name: 'desc' if order.descending[name] != backward else 'asc' for name in names}, backward
