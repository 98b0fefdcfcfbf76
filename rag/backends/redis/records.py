"""Small records in Redis or Valkey, see `RecordStore`: each shelf has its own hash tag, spread over the
nodes.

    R  hash   key → value
    K  zset   keys, in the order of their bytes
    E  zset   keys by when they expire, in microseconds of the store's clock

If all records of a shelf expire, the server deletes its keys an hour after the last one has expired.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rag.backends.redis.hash_tags import RedisPlaces
from rag.backends.redis.server import Script, coded, decoded
from rag.backends.redis.values import duration, micros, moment_of
from rag.turns.checks import check_bounds, incremented
from rag.turns.model import StoredRecord

SHELF = Script.of(
    r"""
local R, K, E = unpack(KEYS)
local op, now, call = ARGV[1], tonumber(ARGV[2]), redis.call
local ops = {}
local function num(n) return string.format('%.0f', n) end
local function drop(key)
  call('ZREM', K, key); call('ZREM', E, key)
  return call('HDEL', R, key)
end
local function put(key, value)
  if call('HSET', R, key, value) == 1 then call('ZADD', K, 0, key) end
end
local function lifetime()
  local dated = call('ZCARD', E)
  if dated == 0 then return end
  if dated < call('HLEN', R) then
    for _, name in ipairs(KEYS) do call('PERSIST', name) end
    return
  end
  local last = tonumber(call('ZREVRANGE', E, 0, 0, 'WITHSCORES')[2])
  local left = num(math.max(math.ceil((last - now) / 1000), 0) + 3600000)
  for _, name in ipairs(KEYS) do call('PEXPIRE', name, left) end
end
function ops.put()  -- key, value, expiry or 0; and so on
  for n = 3, #ARGV, 3 do
    put(ARGV[n], ARGV[n + 1])
    if ARGV[n + 2] == '0' then call('ZREM', E, ARGV[n]) else call('ZADD', E, ARGV[n + 2], ARGV[n]) end
  end
  lifetime()
end
function ops.get()
  local found = {}
  for n = 3, #ARGV do found[n - 2] = call('HGET', R, ARGV[n]) end
  return found
end
function ops.has()
  local found = {}
  for n = 3, #ARGV do found[n - 2] = call('HEXISTS', R, ARGV[n]) end
  return found
end
function ops.scan(prefix, dated)
  local found, stop = {}, prefix == '' and '+' or '[' .. prefix .. '\255'
  for n, key in ipairs(call('ZRANGEBYLEX', K, '[' .. prefix, stop)) do
    found[n] = {key, call('HGET', R, key), dated and call('ZSCORE', E, key) or ''}
  end
  return found
end
function ops.count() return call('HLEN', R) end
function ops.swap(key, is_there, old, is_wanted, new)
  local held = call('HGET', R, key)
  if (held and is_there == '0') or (not held and is_there == '1') or (held and held ~= old) then return 0 end
  if is_wanted == '1' then put(key, new) else drop(key) end
  lifetime()
  return 1
end
function ops.append(key, more)
  local value = (call('HGET', R, key) or '') .. more
  put(key, value)
  lifetime()
  return #value
end
function ops.increment(key, by)  -- the server's own sum has 64 bits, a Lua number only 53
  local before = call('HGET', R, key)
  local sum = redis.pcall('HINCRBY', R, key, by)
  if type(sum) == 'table' and sum.err then return {before, 0} end
  call('ZADD', K, 0, key)
  lifetime()
  return {call('HGET', R, key), 1}
end
function ops.delete()
  local gone = 0
  for n = 3, #ARGV do gone = gone + drop(ARGV[n]) end
  return gone
end
function ops.clear()
  local gone = call('HLEN', R)
  call('DEL', R, K, E)
  return gone
end
for _, key in ipairs(call('ZRANGEBYSCORE', E, '-inf', num(now))) do drop(key) end
local was_empty = 1 - call('EXISTS', R)
local reply = ops[op](unpack(ARGV, 3, math.min(#ARGV, 7)))
return {reply or '', was_empty}
""",
    ("R", "K", "E"),
)


class RedisRecords(RedisPlaces):
    """A `RecordStore` on a server; the turn store adds the rest."""

    def put_records(
        self, records: Mapping[str, bytes], *, shelf: str, namespace: str = "", ttl_s: float | None = None
    ) -> None:
        """Store records; records with the same keys are replaced."""
        check_bounds(ttl_s)
        expires = 0 if ttl_s is None else micros(self._clock()) + duration(ttl_s)
        self._put([(key, bytes(value), expires) for key, value in records.items()], shelf, namespace)

    def records(self, keys: Sequence[str], *, shelf: str, namespace: str = "") -> dict[str, bytes]:
        """Return the records of these keys that exist, in the order of the keys."""
        values = self._shelf(namespace, shelf, "get", *map(coded, keys))
        return {key: value for key, value in zip(keys, values, strict=True) if value is not None}

    def has_records(self, keys: Sequence[str], *, shelf: str, namespace: str = "") -> set[str]:
        """Return those of the keys that have a record, without reading the values."""
        there = self._shelf(namespace, shelf, "has", *map(coded, keys))
        return {key for key, is_there in zip(keys, there, strict=True) if is_there}

    def scan_records(self, *, shelf: str, namespace: str = "", prefix: str = "") -> list[tuple[str, bytes]]:
        """Return all records whose key starts with `prefix`, sorted by key (code points)."""
        found = self._shelf(namespace, shelf, "scan", coded(prefix))
        return [(decoded(key), value) for key, value, _ in found]

    def count_records(self, *, shelf: str, namespace: str = "") -> int:
        """Return the number of records on the shelf."""
        return int(self._shelf(namespace, shelf, "count"))

    def swap_record(
        self, key: str, old: bytes | None, new: bytes | None, *, shelf: str, namespace: str = ""
    ) -> bool:
        """Replace the value `old` by `new`, see `RecordStore`."""
        given = [part for value in (old, new) for part in (int(value is not None), value or b"")]
        return bool(self._shelf(namespace, shelf, "swap", coded(key), *given, writes=True))

    def append_record(self, key: str, more: bytes, *, shelf: str, namespace: str = "") -> int:
        """Append to a record, creating it if necessary; return its length in bytes."""
        return int(self._shelf(namespace, shelf, "append", coded(key), bytes(more), writes=True))

    def increment_record(self, key: str, by: int = 1, *, shelf: str, namespace: str = "") -> int:
        """Add to a record that is a decimal number, see `RecordStore`."""
        there, done = self._shelf(namespace, shelf, "increment", coded(key), by, writes=True)
        if done:
            return int(there)
        total = incremented(there, by)  # validates the record; only a `by` beyond 64 bits can be valid
        self.swap_record(key, there, total, shelf=shelf, namespace=namespace)
        return int(total)

    def delete_records(self, keys: Sequence[str] | None = None, *, shelf: str, namespace: str = "") -> int:
        """Delete these records, or all of the shelf for None; return how many existed."""
        if keys is None:
            return int(self._shelf(namespace, shelf, "clear", writes=True))
        return int(self._shelf(namespace, shelf, "delete", *map(coded, dict.fromkeys(keys)), writes=True))

    # ---- internal

    def _put(self, records: list[tuple[str, bytes, int]], shelf: str, namespace: str) -> None:
        """Store records, each with its key and its expiry (0 is never)."""
        parts = [part for key, value, expires in records for part in (coded(key), value, expires)]
        self._shelf(namespace, shelf, "put", *parts, writes=True)

    def _stored(self, shelf: str, namespace: str) -> list[tuple[str, StoredRecord]]:
        """Return all records with their expiry, sorted by key."""
        found = self._shelf(namespace, shelf, "scan", b"", 1)
        return [
            (decoded(key), StoredRecord(value, moment_of(int(expires)) if expires else None))
            for key, value, expires in found
        ]

    def _shelf(self, namespace: str, shelf: str, call: str, *args: Any, writes: bool = False) -> Any:
        """Return the result of a call on a shelf."""
        begins = call in ("put", "swap", "append", "increment")
        known = begins and not self._put_down(namespace, shelf)
        tag, args = self._tag(namespace, shelf), (call, micros(self._clock()), *args)
        reply, was_empty = self._server.run(SHELF, tag, args, writes=writes)
        if known and was_empty:
            self._put_down(namespace, shelf, again=True)
        return reply
