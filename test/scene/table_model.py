"""What tables must do, in memory: docs/api.md 4 read as a program, plain rather than fast.

A Table is a dict of rows by key, gone through whole for every question; values are as table_values.py has them, and `now`
is in seconds. perform() does what a put, a delete or a batch asks for, Table.select() is what a get must give.
What the server may do in the background is done at once here. Table.loose() is another that lets no row go: until the
background is over, what there is lies between the two (Between).

Where the text is silent, the model says what the server does, so that a change of it is noticed:
- conditions of a batch are judged against what was there before the batch;
- partitions of a whole table or index follow each other in the order of their hash attributes.
"""
import collections
import math
from copy import copy
from functools import total_ordering

from page_help import EPOCH_TICKS

FOREVER = math.inf
TICKS_PER_S = 10**7

# Put: values by attribute, ttl in seconds or 0, condition as Table.holds() takes it or None.
# Delete: predicates by attribute as matches() takes them.
Put = collections.namedtuple('Put', 'table values ttl condition')
Delete = collections.namedtuple('Delete', 'table predicates')
Found = collections.namedtuple('Found', 'place values ttl')    # place: what sorts it; ttl: None without an end


class Expired(Exception):
    """A put of what the policy cannot keep."""


@total_ordering
class Down:
    """A value of a descending attribute."""

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return self.value == other.value

    def __lt__(self, other):
        return other.value < self.value

    def __hash__(self):
        return hash(self.value)

    def __repr__(self):
        return f'Down({self.value!r})'


class Order:
    """The order of a table or of one of its indexes.

    shown: the attributes that an answer has. grouped: of rows that differ in their version alone the newest counts.
    """

    def __init__(self, hashed, ranged, shown, grouped=False):
        self.hash, self.descending, self.shown, self.grouped = hashed, dict(ranged), shown, grouped
        self.range = list(self.descending)
        self.attributes = self.hash + self.range

    def place(self, values):
        return (*(values[name] for name in self.hash),
                *(Down(values[name]) if down else values[name] for name, down in self.descending.items()))


def _named(entries, kind):
    return [entry['attribute'] for entry in entries if entry['type'] == kind]


def _ranged(entries):
    return [(entry['attribute'], entry.get('order') == 'desc') for entry in entries if entry['type'] == 'range']


class Schema:
    """A schema as JSON, taken apart. orders[None] is the table's, the others those of its indexes by name."""

    def __init__(self, json):
        self.json, self.types = json, json['attributes']
        table = Order(_named(json['index'], 'hash'), _ranged(json['index']), list(self.types))
        self.hash, self.key, self.static = table.hash, table.attributes, _named(json['index'], 'static')
        self.plain = [name for name in self.types if name not in self.key + self.static]
        last = table.range[-1] if table.range else None
        self.version = last if last and self.types[last] == 'timeuuid' and table.descending[last] else None
        self.policy = json.get('revisionRetentionPolicy') or {'type': 'all'}
        self.ttl = json.get('options', {}).get('default_time_to_live', 0)
        self.orders = {None: table}
        for name, entries in json.get('secondaryIndexes', {}).items():
            self.orders[name] = self._index(entries)

    def _index(self, entries):
        """What it does not name of the table's key follows, descending; a version that it does not name is grouped."""
        hashed, ranged = _named(entries, 'hash'), _ranged(entries)
        named = {entry['attribute'] for entry in entries}
        grouped = self.version is not None and self.version not in named
        rest = [name for name in self.key if name not in (*hashed, *dict(ranged), *([self.version] if grouped else ()))]
        shown = [name for name in self.types if name in named or name in rest]
        return Order(hashed, ranged + [(name, True) for name in rest], shown, grouped)


class Row:
    """Of a table, or the static attributes of a partition.

    attributes: without those of the key. written: when it was put; own: its end without a policy; end: the one it has.
    """

    def __init__(self, key, attributes, written, own):
        self.key, self.attributes, self.written, self.own, self.end = key, attributes, written, own, own


def matches(values, predicates):
    """predicates: for each attribute some (operator, value), all of which must hold."""
    return all({'eq': values[name] == value, 'lt': values[name] < value, 'le': values[name] <= value,
                'gt': values[name] > value, 'ge': values[name] >= value}[operator]
               for name, several in predicates.items() for operator, value in several)


class Table:
    def __init__(self, name, schema):
        self.name, self.schema = name, Schema(schema)
        self.rows, self.statics = {}, {}     # by key; by partition
        self.lets_go = True                  # what the policy does not keep

    def loose(self):
        """Another of the same state whose policy lets nothing go."""
        other = copy(self)
        (other.rows, other.statics), other.lets_go = self.state(), False
        return other

    # ---- time, and steps that are not done

    def expire(self, now):
        for held in (self.rows, self.statics):
            for key in [key for key, row in held.items() if row.end <= now]:
                del held[key]

    def state(self):
        return [{key: copy(row) for key, row in held.items()} for held in (self.rows, self.statics)]

    # ---- writes

    def put(self, values, now, ttl):
        """An attribute that is not named keeps its value. Raises Expired, the table is then in no state."""
        schema = self.schema
        key = tuple(values[name] for name in schema.key)
        ttl = ttl or schema.ttl
        life = now, now + ttl if ttl else FOREVER
        self._merge(self.rows, key, schema.plain, values, life)
        partition = key[:len(schema.hash)]
        if any(name in values for name in schema.static):
            self._merge(self.statics, partition, schema.static, values, life)
        self._trim_written(self.rows[key], now)

    def _merge(self, held, key, names, values, life):
        old = held[key].attributes if key in held else {}
        held[key] = Row(key, {name: values[name] if name in values else old.get(name) for name in names}, *life)
        self._end_alone(held[key])

    def delete(self, predicates, now):
        """Rows that match; with no predicates but on the hash attributes the statics of the partition too."""
        schema = self.schema
        gone = [row for row in self.rows.values() if matches(dict(zip(schema.key, row.key)), predicates)]
        for row in gone:
            del self.rows[row.key]
        if set(predicates) == set(schema.hash):
            self.statics.pop(tuple(predicates[name][0][1] for name in schema.hash), None)
        for group in {self._group(row.key) for row in gone}:
            self._trim_group(group, now)

    def holds(self, values, condition):
        """condition: 'not exists', or values that attributes must have; of a row that is not there they are null."""
        schema = self.schema
        key = tuple(values[name] for name in schema.key)
        if condition == 'not exists':
            return key not in self.rows
        have = dict.fromkeys(schema.types)
        if key in self.rows:
            have.update(zip(schema.key, key), **self.rows[key].attributes)
        have.update(self.statics_of(key))
        return all(have[name] == value for name, value in condition.items())

    def migrate(self, schema, now):
        """An attribute that is gone is forgotten. The policy is applied to what is stored."""
        before, self.schema = self.schema.policy['type'], Schema(schema)
        for row in self.rows.values():
            row.attributes = {name: row.attributes.get(name) for name in self.schema.plain}
        if self.lets_go:
            self._trim_all(before, now)

    # ---- policies

    def _end_alone(self, row):
        """The end of a row that is counted with no other; a ttl is from its put on."""
        policy = self.schema.policy
        row.end = min(row.own, row.written + policy['ttl']) if policy['type'] == 'ttl' else row.own

    def _group(self, key):
        """What rows are counted together: they differ in their version alone."""
        policy = self.schema.policy
        if policy['type'] != 'interval':
            return key[:-1]
        return (*key[:-1], (key[-1][0] - EPOCH_TICKS) // (policy['interval'] * TICKS_PER_S))

    def _trim_group(self, group, now):
        """The newest rows of a group stay, with the end they were put with; the others end when grace_ttl is over.
        One that ends by itself no later than that is not counted."""
        policy = self.schema.policy
        if policy['type'] in ('all', 'ttl') or self.schema.version is None or not self.lets_go:
            return
        keep, fall, counted = policy.get('count', 1), now + policy.get('grace_ttl', 1), 0
        rows = [row for row in self.rows.values() if self._group(row.key) == group]
        for row in sorted(rows, key=lambda row: row.key[-1], reverse=True):
            if counted == keep:
                row.end = min(row.end, fall)
            else:
                row.end = row.own
                counted += row.own > fall
        self.expire(now)

    def _trim_partition(self, partition):
        """latest_hash: rows with another first range attribute than the first row has are deleted."""
        at, order = len(self.schema.hash), self.schema.orders[None]
        rows = [row for row in self.rows.values() if row.key[:at] == partition]
        first = min(rows, key=lambda row: order.place(dict(zip(self.schema.key, row.key))))
        for row in rows:
            if row.key[at] != first.key[at]:
                del self.rows[row.key]

    def _trim_written(self, row, now):
        if self.schema.policy['type'] == 'latest_hash' and self.lets_go:
            self._trim_partition(row.key[:len(self.schema.hash)])
        if row.key in self.rows:
            self._trim_group(self._group(row.key), now)
        if row.key not in self.rows:
            raise Expired

    def _trim_all(self, before, now):
        """before: the kind of the policy that there was. What that of a ttl made of ends is taken back, but from rows that
        fall out of the new one: they have the earlier end."""
        policy, at = self.schema.policy, len(self.schema.hash)
        uncounted = policy['type'] in ('all', 'ttl') or self.schema.version is None
        if 'ttl' in (before, policy['type']) or policy['type'] == 'all':
            for row in (*(self.rows.values() if uncounted else ()), *self.statics.values()):
                self._end_alone(row)
        self.expire(now)
        if policy['type'] == 'latest_hash':
            for partition in {key[:at] for key in self.rows}:
                self._trim_partition(partition)
        for group in {self._group(key) for key in self.rows}:
            self._trim_group(group, now)

    # ---- reads

    def statics_of(self, key):
        held = self.statics.get(key[:len(self.schema.hash)])
        return {name: held.attributes.get(name) if held else None for name in self.schema.static}

    def select(self, index, predicates, now, backward=False):
        """Every row that a get must give, as Found, in its order."""
        schema, order = self.schema, self.schema.orders[index]
        rows = self.rows.values()
        if order.grouped:
            newest = {}
            for row in sorted(rows, key=lambda row: row.key[-1]):
                newest[row.key[:-1]] = row
            rows = newest.values()
        found = []
        for row in rows:
            values = {**dict(zip(schema.key, row.key)), **row.attributes, **self.statics_of(row.key)}
            if all(values[name] is not None for name in order.attributes) and matches(values, predicates):
                found.append(Found(order.place(values), values, None if row.end == FOREVER else row.end - now))
        return sorted(found, key=lambda one: one.place, reverse=backward)

    def partitions(self, found, index):
        """What distinct leaves of them: the first of each partition."""
        firsts = {}
        for one in found:
            firsts.setdefault(tuple(one.values[name] for name in self.schema.orders[index].hash), one)
        return list(firsts.values())


class Between:
    """What a get may give of a table before the background is over: all that stays, and of what will fall out anything.
    loose: the table if it had let nothing go. A static attribute that goes may be there as long."""

    def __init__(self, table, loose, select):
        """select(table): what a get must give of either."""
        key_of = lambda one: tuple(one.values[name] for name in table.schema.key)
        stay, may = select(table), select(loose)
        keys = {key_of(one) for one in may}
        self.must = [one.place for one in stay if key_of(one) in keys]     # in an index a newer one may hide it
        self.count, self.allowed = len(may), {}
        for one in (*stay, *may):
            self.allowed.setdefault(one.place, []).extend((one.values, {**one.values, **table.statics_of(key_of(one))}))


def perform(operations, now):
    """Puts and deletes as one step, all or nothing: 'applied', 'unmet' when a condition does not hold, or 'expired'."""
    puts = [operation for operation in operations if isinstance(operation, Put)]
    if not all(put.condition is None or put.table.holds(put.values, put.condition) for put in puts):
        return 'unmet'
    before = [(table, table.state()) for table in {operation.table for operation in operations}]
    try:
        for operation in operations:
            if isinstance(operation, Put):
                operation.table.put(operation.values, now, operation.ttl)
            else:
                operation.table.delete(operation.predicates, now)
    except Expired:
        for table, state in before:
            table.rows, table.statics = state
        return 'expired'
    return 'applied'
