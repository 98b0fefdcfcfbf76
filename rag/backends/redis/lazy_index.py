"""The calls that add turns and messages, and those that index their words later.

Most of the time of an addition would be spent on analyzing the text and on indexing its words, some dozens to
some hundreds. Therefore an addition stores an item as *unread*: shown, cited, counted and dumped like others,
but not in the index yet. The next search gets the unread items, analyzes them, has them indexed (`read`), and
then searches. Several searches may do so at once, or die in between: a script indexes an item only if it is
still unread and unchanged. Items that are added during a search are not waited for.
"""

from __future__ import annotations

ADDING = r"""
-- adding

local function add(id, v, kind)  -- first order of new items, existing ones, and the number of unread ones
  local fields, asked, known, total = {}, {}, {}, 0
  local bodies, places, words, spots, cited = {}, {}, {}, {}, {}
  for n = 1, (#ARGV - 4) / 4 do fields[n] = kind .. ARGV[4 * n + 1] end
  local there, first, prefix = many('HMGET', X, fields), v.o, piece(id) .. kind
  for n, field in ipairs(fields) do
    if there[n] or asked[field] then known[#known + 1] = n
    else
      local at, here = 2 * total + 1, 4 * n
      local item, marks, cites = ARGV[here + 1], ARGV[here + 2], ARGV[here + 3]
      asked[field] = true
      bodies[at], bodies[at + 1] = field, ARGV[here + 4]
      places[at], places[at + 1] = field, pack({id, v.o, -1, 1, marks == '' and {} or cjson.decode(marks)})
      spots[at], spots[at + 1] = 0, prefix .. wide(v.o) .. item
      if cites ~= '' then
        words[#words + 1] = field
        words[#words + 1] = '[[],' .. cites .. ']'
        for _, where in ipairs(cjson.decode(cites)) do
          cited[#cited + 1] = 0
          cited[#cited + 1] = spot_cited(item, where)
        end
      end
      v.o, total = v.o + 1, total + 1
    end
  end
  if total > 0 then
    many('HSET', I, bodies); many('HSET', X, places); many('HSET', W, words)
    many('ZADD', S, spots); many('ZADD', D, cited)
    call('HSETNX', Q, id, first)
    if format ~= FORMAT then mark_format() end
  end
  for k, n in ipairs(known) do
    local item = ARGV[4 * n + 1]
    known[k] = {n - 1, entry(kind, item, place(kind, item))}
  end
  local unread = 0
  if total > 0 then
    unread = call('HINCRBY', M, 'unread', total)
    written(id, v)
    if dated > 0 then lifetime() end
  end
  return {'ok', {first, known, unread}}
end
if op == 'add' and (dated == 0 or call('ZCOUNT', E, '-inf', num(now)) == 0) then
  local v = view(ARGV[3])
  if v and v.k == 0 then return add(ARGV[3], v, ARGV[4]) end
end
"""
"""Comes before everything that other calls need and additions seldom do, as creating that takes as long."""

READING = r"""
-- reading

local function trim(id, v, kind)
  if v.k == 0 or count(v, kind) <= v.k then return end
  local newest = shown(v, kind, v.k)
  local first = newest[#newest].order
  local taken = shown(v, kind, nil, nil, first)
  v['f' .. kind] = first
  save(id, v)
  release(taken)
end
function ops.add(id, kind)
  local v = view(id)
  if not v then return {'gone'} end
  local reply = add(id, v, kind)
  trim(id, v, kind)
  return reply
end

local function order_in(member, skip) return tonumber(member:sub(skip + 1, skip + 16)) end
local function unread_of(origin, from, before, limit)  -- items, and the last order that was checked
  local found, last, cut = {}, before < END and before - 1 or from, nil
  for _, kind in ipairs({'t', 'm'}) do
    local low, high, skip = bounds({origin, from, before - 1}, kind)
    local members = call('ZRANGEBYLEX', S, low, high, 'LIMIT', 0, limit)
    for n, member in ipairs(members) do
      local order = order_in(member, skip)
      found[#found + 1] = {kind, member:sub(skip + 17), order}
      last = math.max(last, order)
      if n == limit then cut = math.min(cut or END, order) end
    end
  end
  local fields, items = {}, {}
  for n, item in ipairs(found) do fields[n] = item[1] .. item[2] end
  local places, bodies = many('HMGET', X, fields), many('HMGET', I, fields)
  for n, item in ipairs(found) do
    if item[3] <= (cut or last) and open(places[n])[3] < 0 then
      item[4] = bodies[n]
      items[#items + 1] = item
    end
  end
  return items, cut or last
end
local function settled(origin, last)  -- all up to an order is read
  local from = call('HGET', Q, origin)
  if not from or tonumber(from) > last then return end
  for _, kind in ipairs({'t', 'm'}) do
    local low, high = bounds({origin, last + 1, END}, kind)
    if #call('ZRANGEBYLEX', S, low, high, 'LIMIT', 0, 1) > 0 then
      call('HSET', Q, origin, last + 1)
      return
    end
  end
  call('HDEL', Q, origin)
end
local function unread(limit, ends)  -- by conversation, oldest first; of each the items before its end
  local found, total, waiting = {}, 0, call('HGETALL', Q)
  for n = 1, #waiting, 2 do
    local origin, from, items = waiting[n], tonumber(waiting[n + 1]), {}
    local before = ends and (ends[origin] or 0) or END
    while #items == 0 and total < limit and from and from < before do
      local last
      items, last = unread_of(origin, from, before, limit - total)
      if #items > 0 then found[#found + 1] = {origin, last, items}
      else
        settled(origin, last)
        from = tonumber(call('HGET', Q, origin) or nil)
      end
    end
    total = total + #items
  end
  return found
end
local function ends_now()  -- the orders after the last unread items
  local ends = {}
  for _, origin in ipairs(call('HKEYS', Q)) do
    local v = view(origin)
    ends[#ends + 1] = {origin, v and v.o or END}
  end
  return ends
end
function ops.unread(limit) return {'ok', unread(tonumber(limit))} end
local function as_given(origin, items)  -- those still unread and unchanged, and what to store of them
  local fields, places, there = {}, {}, {}
  for n, item in ipairs(items) do fields[n] = item[1] .. item[2] end
  for n, raw in ipairs(many('HMGET', X, fields)) do
    local item, m = items[n], raw and open(raw)
    if m and m[3] < 0 and m[1] == origin and m[2] == item[3] then
      m[3] = item[4]
      there[#there + 1] = n
      places[#places + 1] = fields[n]
      places[#places + 1] = pack(m)
    end
  end
  return there, places, fields
end
function ops.read(given)  -- words by item, then entries of the items by block and term
  local at, total = 3, 0
  for _, group in ipairs(cjson.decode(given)) do
    local origin, last, items, blocks = group[1], group[2], group[3], group[4]
    local there, places, fields = as_given(origin, items)
    local words, length, entries = {}, 0, at + #items
    for _, n in ipairs(there) do
      words[#words + 1] = fields[n]
      words[#words + 1] = ARGV[at + n]
      length = length + items[n][4]
      if #there < #items then post(origin, items[n][3], items[n][1], cjson.decode(ARGV[at + n])[1]) end
    end
    for _, block in ipairs(blocks) do
      local added = #there == #items and changes_of(origin, block[1]).added or {}
      for n = entries + 1, entries + 2 * block[2], 2 do
        added[ARGV[n]] = (added[ARGV[n]] or '') .. ARGV[n + 1]
      end
      entries = entries + 2 * block[2]
    end
    at, total = entries, total + #there
    many('HSET', X, places); many('HSET', W, words)
    if #there > 0 then sum(origin, length) end
    settled(origin, last)
  end
  if total > 0 then
    call('HINCRBY', M, 'unread', -total)
    lifetime()
  end
  return {'ok'}
end
"""
