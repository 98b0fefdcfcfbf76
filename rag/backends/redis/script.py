"""The scripts by which transactions read and write on a server, and the keys of a namespace and of a shelf.

A script gets what a transaction has read, and its changes. If the server would reply the same as it did, the
changes are made; if not, nothing is, and the script returns what it would reply now. So a transaction is
atomic, and no lock is held. A script uses keys with one hash tag.

The keys of a namespace; the key of an item has 8 bytes, see `item_key`:

    C  hash   conversation → its number and its JSON text
    N  hash   name → conversation
    L  zset   conversations by last write: a number that only increases
    E  zset   conversations by expiry, in microseconds of the store's clock
    M  hash   "format", the version of this layout; "numbers" and "seq", the last numbers given to an
              origin, and to an item or a write; "indexed" and "length", the number of indexed items and of
              their terms; "changed", how often an indexed item was changed or deleted
    G  hash   number of an origin and t, m or l → its turns, its messages, and the terms of the indexed ones
    O  hash   i and origin → number; n and number → origin
    Y  zset   number of an origin (4 bytes), conversation that has a span of it
    S  zset   items, in the order of their keys
    I  hash   item → the JSON text of its current version
    B  hash   item → length (-1 until it is indexed), bucket, number of earlier versions, id
    J  hash   item → its marks, if it has any
    V  hash   item and number → the JSON text of an earlier version
    X  hash   kind and id → item
    D  zset   path, location, blob, id
    Q  zset   items that are not indexed, see `index`
    P  hash   bucket and term → the items that contain the term (8 bytes), with its count (4 bytes)
    Z  hash   bucket → number of its items

The keys of a shelf: R hash (key → value), K zset (keys, in the order of their bytes), E zset (keys by
expiry). If everything expires, the server deletes the keys an hour after the last expiry.
"""

from __future__ import annotations

from rag.backends.redis.server import Script

FORMAT = 3
"""The version of the layout of a namespace."""
NAMESPACE_KEYS = "CNLEMGOYSIBJVXDQPZ"
SHELF_KEYS = "RKE"
BUCKET = 256
"""The number of items in a bucket; an item stays in its bucket."""

_COMMON = r"""
local call, reads, ops = redis.call, {}, {}
local given = cmsgpack.unpack(ARGV[1])
local now, checks, writes, asked = given[1], given[2], given[3], given[4]
local function num(n) return string.format('%.0f', n) end
local function many(command, key, args)  -- calls with an even number of arguments; all replies in one list
  local replies = {}
  for n = 1, #args, 1000 do
    local reply = call(command, key, unpack(args, n, math.min(n + 999, #args)))
    if type(reply) == 'table' then
      for k = 1, #reply do replies[n + k - 1] = reply[k] end
    end
  end
  return replies
end
local function written_out(reply)
  local parts = {}
  for n = 1, #reply do parts[n] = reply[n] and #reply[n] .. ':' .. reply[n] or '-' end
  local text = table.concat(parts)
  return #text > 40 and redis.sha1hex(text) or text
end
local function read(one) return reads[one[1]](unpack(one, 2)) end
local function lifetime(all, has_others)
  if call('ZCARD', E) == 0 then return end
  if has_others() then
    for _, key in ipairs(all) do call('PERSIST', key) end
    return
  end
  local last = tonumber(call('ZREVRANGE', E, 0, 0, 'WITHSCORES')[2])
  local left = num(math.max(math.ceil((last - tonumber(now)) / 1000), 0) + 3600000)
  for _, key in ipairs(all) do call('PEXPIRE', key, left) end
end
function reads.soonest() return {call('ZRANGE', E, 0, 0, 'WITHSCORES')[2] or ''} end
"""

_NAMESPACE = r"""
local format = call('HGET', M, 'format')
local function with_counts(found, raw, is_long)
  if not raw then return end
  local number = raw:match('^%d+')
  local sums = call('HMGET', G, number .. 't', number .. 'm', number .. 'l')
  found[#found + 1] = raw
  found[#found + 1] = sums[1] or '0'
  found[#found + 1] = sums[2] or '0'
  found[#found + 1] = is_long and sums[3] or '0'
end
local function conversations(ids, is_long)
  local found = {}
  for _, id in ipairs(ids) do
    local raw = call('HGET', C, id)
    if raw then
      found[#found + 1] = id
      with_counts(found, raw, is_long)
    end
  end
  return found
end
function reads.living(before) return {num(call('HLEN', C) - call('ZCOUNT', E, '-inf', before))} end
function reads.conversation(id) return conversations({id}) end
function reads.long(id) return conversations({id}, true) end  -- with the number of terms
function reads.named(name) return conversations({call('HGET', N, name) or nil}) end
function reads.conversations() return conversations(call('ZRANGE', L, 0, -1)) end
function reads.late(before) return conversations(call('ZRANGEBYSCORE', E, '-inf', before)) end
function reads.viewers(number)
  local ids = call('ZRANGEBYLEX', Y, '[' .. number, '[' .. number .. '\255')
  for n, member in ipairs(ids) do ids[n] = member:sub(5) end
  return conversations(ids)
end
function reads.numbers(ids)
  local found = {call('HGET', M, 'numbers') or '0'}
  for n, id in ipairs(ids) do found[n + 1] = call('HGET', O, 'i' .. id) end
  return found
end

local function items_of(keys, is_marked)  -- item, brief, text, marks; and so on
  local briefs, texts, marks = many('HMGET', B, keys), many('HMGET', I, keys), many('HMGET', J, keys)
  local found = {}
  for n, key in ipairs(keys) do
    if marks[n] or not is_marked then
      local at = #found
      found[at + 1], found[at + 2], found[at + 3], found[at + 4] = key, briefs[n], texts[n], marks[n]
    end
  end
  return found
end
local function origin_of(key) return call('HGET', O, 'n' .. num(struct.unpack('>I4', key))) end
function reads.items(kind, ids)  -- also the origin
  local keys = {}
  for _, id in ipairs(ids) do keys[#keys + 1] = call('HGET', X, kind .. id) or nil end
  local found, each = {}, items_of(keys)
  for n, key in ipairs(keys) do
    for k = 1, 4 do found[5 * n - 5 + k] = each[4 * n - 4 + k] end
    found[5 * n] = origin_of(key)
  end
  return found
end
function reads.scan(low, high, is_newest_first, limit, is_marked)
  local cut = is_marked == '1' and '-1' or limit
  if is_newest_first == '1' then
    return items_of(call('ZREVRANGEBYLEX', S, '[' .. high, '[' .. low, 'LIMIT', 0, cut), is_marked == '1')
  end
  return items_of(call('ZRANGEBYLEX', S, '[' .. low, '[' .. high, 'LIMIT', 0, cut), is_marked == '1')
end
function reads.newest(id, kind, limit)  -- of all that was added to a conversation
  local raw = call('HGET', C, id)
  if not raw then return {} end
  local number = struct.pack('>I4', tonumber(raw:match('^%d+')))
  local low = kind == 'm' and '\128' or '\0'
  local high = kind == 'm' and '\255' or '\127'
  return reads.scan(number .. low .. '\0\0\0', number .. high .. '\255\255\255', '1', limit, '0')
end
function reads.count(low, high, is_long)
  if is_long == '0' then return {num(call('ZLEXCOUNT', S, '[' .. low, '[' .. high)), '0'} end
  local keys, total = call('ZRANGEBYLEX', S, '[' .. low, '[' .. high), 0
  for _, brief in ipairs(many('HMGET', B, keys)) do
    total = total + math.max(tonumber(brief:match('^%S+')), 0)
  end
  return {num(#keys), num(total)}
end
function reads.versions(key, count)
  local found = {}
  for n = 1, tonumber(count) do found[n] = call('HGET', V, key .. num(n)) end
  return found
end
function reads.citing(low, high, location, blob)
  local found, known = {}, {}
  for _, member in ipairs(call('ZRANGEBYLEX', D, low, high)) do
    local parts, at = {}, 0
    for n = 1, 3 do
      local _, stop, size = member:find('^(%d+):', at + 1)
      at = stop + tonumber(size)
      parts[n] = member:sub(stop + 1, at)
    end
    local id = member:sub(at + 1)
    if (not location or parts[2] == location) and (not blob or parts[3] == blob) and not known[id] then
      known[id] = true
      found[#found + 1] = id
    end
  end
  return found
end

function reads.unread() return {num(call('ZCARD', Q)), call('HGET', M, 'seq') or '0'} end
function reads.waiting(limit, last)  -- the oldest
  return items_of(call('ZRANGEBYSCORE', Q, '-inf', last, 'LIMIT', 0, limit))
end
function reads.these(given_keys)  -- those still waiting
  local keys = {}
  for _, key in ipairs(given_keys) do
    if call('ZSCORE', Q, key) then keys[#keys + 1] = key end
  end
  return items_of(keys)
end
function reads.totals()
  local found = call('HMGET', M, 'indexed', 'length', 'changed')
  return {found[1] or '0', found[2] or '0', found[3] or '0'}
end
function reads.match(terms)
  local buckets, fields, found = call('HKEYS', Z), {}, {}
  for k, term in ipairs(terms) do
    for n, bucket in ipairs(buckets) do fields[n] = bucket .. ':' .. term end
    local parts = {}
    for _, part in ipairs(many('HMGET', P, fields)) do
      if part then parts[#parts + 1] = part end
    end
    found[k] = table.concat(parts)
  end
  return found
end
function reads.briefs(keys, changed)  -- false if an indexed item has changed
  if (call('HGET', M, 'changed') or '0') ~= changed then return {false} end
  local fields, found = {}, {}
  for n = 1, #keys / 8 do fields[n] = keys:sub(8 * n - 7, 8 * n) end
  for n, brief in ipairs(many('HMGET', B, fields)) do found[n] = struct.pack('>I4', #brief) .. brief end
  return {table.concat(found)}
end
function reads.origins(numbers)
  local found = {}
  for n, number in ipairs(numbers) do found[n] = call('HGET', O, 'n' .. number) end
  return found
end

local function sum(key, by)  -- key is a number and t, m or l
  for field, change in pairs(by) do call('HINCRBY', key, field, change) end
end
local function more(by, field, change) by[field] = (by[field] or 0) + change end
local function kind_of(key) return key:byte(5) >= 128 and 'm' or 't' end
local function number_of(key) return num(struct.unpack('>I4', key)) end
function ops.written(id) call('ZADD', L, call('HINCRBY', M, 'seq', 1), id) end
function ops.add(items)  -- each: item, kind and id, earlier versions, text, marks or false, citations
  local first = call('HINCRBY', M, 'seq', #items) - #items + 1
  local texts, ids, briefs, places, unread, marks, cited = {}, {}, {}, {}, {}, {}, {}
  local counts, buckets = {}, {}
  for n, item in ipairs(items) do
    local key, seq = item[1], first + n - 1
    local bucket = num(math.floor(seq / BUCKET))
    texts[2 * n - 1], texts[2 * n] = key, item[4]
    ids[2 * n - 1], ids[2 * n] = item[2], key
    briefs[2 * n - 1], briefs[2 * n] = key, '-1 ' .. bucket .. ' ' .. item[3] .. ' ' .. item[2]:sub(2)
    places[2 * n - 1], places[2 * n] = 0, key
    unread[2 * n - 1], unread[2 * n] = num(seq), key
    if item[5] then marks[#marks + 1] = key; marks[#marks + 1] = item[5] end
    for _, member in ipairs(item[6]) do cited[#cited + 1] = 0; cited[#cited + 1] = member end
    more(counts, number_of(key) .. kind_of(key), 1)
    more(buckets, bucket, 1)
  end
  many('HSET', I, texts); many('HSET', X, ids); many('HSET', B, briefs); many('HSET', J, marks)
  many('ZADD', S, places); many('ZADD', Q, unread); many('ZADD', D, cited)
  sum(G, counts); sum(Z, buckets)
end
function ops.unpost(key, bucket, length, terms)  -- removes an indexed item from the index
  local fields, begun, over = {}, {}, {}
  for n, term in ipairs(terms) do fields[n] = bucket .. ':' .. term end
  for n, value in ipairs(many('HMGET', P, fields)) do
    local at = value:find(key, 1, true)
    while (at - 1) % 12 ~= 0 do at = value:find(key, at + 1, true) end
    local left = value:sub(1, at - 1) .. value:sub(at + 12)
    if left == '' then over[#over + 1] = fields[n]
    else begun[#begun + 1] = fields[n]; begun[#begun + 1] = left end
  end
  many('HSET', P, begun); many('HDEL', P, over)
  call('HINCRBY', M, 'indexed', -1); call('HINCRBY', M, 'length', -length)
  call('HINCRBY', M, 'changed', 1); call('HINCRBY', G, number_of(key) .. 'l', -length)
end
function ops.remove(key, field, bucket, cited)
  call('HDEL', I, key); call('HDEL', B, key); call('HDEL', J, key); call('HDEL', X, field)
  call('ZREM', S, key); call('ZREM', Q, key)
  many('ZREM', D, cited)
  call('HINCRBY', G, number_of(key) .. kind_of(key), -1)
  if call('HINCRBY', Z, bucket, -1) == 0 then call('HDEL', Z, bucket) end
end
local is_less = false
function ops.forget(number)  -- an origin without items that no conversation shows
  is_less = true
  local prefix = struct.pack('>I4', number)
  local high = '[' .. prefix .. '\255\255\255\255'
  if call('ZLEXCOUNT', S, '[' .. prefix, high) + call('ZLEXCOUNT', Y, '[' .. prefix, high) > 0 then return end
  local origin = call('HGET', O, 'n' .. num(number))
  if origin then call('HDEL', O, 'n' .. num(number), 'i' .. origin) end
  for _, letter in ipairs({'t', 'm', 'l'}) do call('HDEL', G, num(number) .. letter) end
end
function ops.index(keys, briefs, lengths, entries)  -- entries: bucket and term, then items with their counts
  local total, sums, fields, found = 0, {}, {}, {}
  for n, key in ipairs(keys) do
    more(sums, number_of(key) .. 'l', lengths[n])
    total = total + lengths[n]
    call('HSET', B, key, briefs[n])
    call('ZREM', Q, key)
  end
  for n = 1, #entries, 2 do fields[(n + 1) / 2] = entries[n] end
  for n, value in ipairs(many('HMGET', P, fields)) do
    if value then entries[2 * n] = value .. entries[2 * n] end
  end
  many('HSET', P, entries)
  sum(G, sums)
  call('HINCRBY', M, 'indexed', #keys); call('HINCRBY', M, 'length', total)
end
local function finish()
  if is_less and call('HLEN', C) == 0 and call('ZCARD', S) == 0 then call('DEL', unpack(KEYS)) return end
  if format ~= tostring(FORMAT) then call('HSET', M, 'format', FORMAT) end
  lifetime(KEYS, function() return call('ZCARD', E) < call('HLEN', C) end)
end
local function rest() return num(call('ZCARD', Q)) end
if format and tonumber(format) ~= FORMAT then return {'foreign', format} end
"""

_SHELF = r"""
function reads.get(keys)  -- value, expiry
  local found = {}
  for n, key in ipairs(keys) do
    found[2 * n - 1], found[2 * n] = call('HGET', R, key), call('ZSCORE', E, key)
  end
  return found
end
function reads.has(keys)
  local found = {}
  for n, key in ipairs(keys) do found[n] = num(call('HEXISTS', R, key)) end
  return found
end
function reads.keys() return call('ZRANGEBYLEX', K, '-', '+') end
function reads.prefix(prefix)  -- key, value, expiry
  local found, stop = {}, prefix == '' and '+' or '[' .. prefix .. '\255'
  for n, key in ipairs(call('ZRANGEBYLEX', K, '[' .. prefix, stop)) do
    found[3 * n - 2], found[3 * n - 1], found[3 * n] = key, call('HGET', R, key), call('ZSCORE', E, key)
  end
  return found
end
function reads.living(before) return {num(call('HLEN', R) - call('ZCOUNT', E, '-inf', before))} end
function reads.size() return {num(call('HLEN', R))} end
function ops.put(key, value, expiry)
  if call('HSET', R, key, value) == 1 then call('ZADD', K, 0, key) end
  if expiry then call('ZADD', E, expiry, key) else call('ZREM', E, key) end
end
function ops.drop(keys)
  for _, key in ipairs(keys) do call('ZREM', K, key); call('ZREM', E, key); call('HDEL', R, key) end
end
function ops.expire(before) ops.drop(call('ZRANGEBYSCORE', E, '-inf', before)) end
function ops.clear() call('DEL', R, K, E) end
local was_empty = 1 - call('EXISTS', R)
local function finish() lifetime(KEYS, function() return call('ZCARD', E) < call('HLEN', R) end) end
local function rest() return num(was_empty) end
"""

_TRANSACTION = r"""
local state = 'ok'
for _, check in ipairs(checks) do
  if written_out(read(check[1])) ~= check[2] then state = 'changed' end
end
if state == 'changed' then
  asked = {}
  for n, check in ipairs(checks) do asked[n] = check[1] end
elseif #writes > 0 then
  for _, one in ipairs(writes) do
    local op, key = one[1], one[2]
    if type(key) == 'number' then many(op, KEYS[key], one[3])
    else ops[op](unpack(key)) end
  end
  finish()
end
local replies = {}
for n, one in ipairs(asked) do replies[n] = read(one) end
return {state, rest(), replies}
"""


def _script(keys: str, body: str) -> Script:
    names = f"local {', '.join(keys)} = unpack(KEYS)\nlocal FORMAT, BUCKET = {FORMAT}, {BUCKET}\n"
    return Script.of(names + _COMMON + body + _TRANSACTION, tuple(keys))


NAMESPACE = _script(NAMESPACE_KEYS, _NAMESPACE)
SHELF = _script(SHELF_KEYS, _SHELF)
