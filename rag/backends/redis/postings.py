"""The inverted index: the turns and messages that contain a term, in a compact form.

The orders of a conversation are grouped in blocks of 256. For each term, P has a string for each block with
six bytes for each match: the order within the block, the kind, and the count of the term; and the number of
matches in the whole conversation. T lists the blocks of conversations, with five bytes for each: the
conversation's number within 256 of them, and the number of the block. A script collects its changes and
writes them once at its end (`settle`).

The newest matches are in the last blocks: a search in a whole conversation does not read older ones. If only
a part of it is shown, or if it was created in version 1, without these numbers, the matches in older blocks
are counted by the lengths of their strings.
"""

from __future__ import annotations

POSTINGS = r"""
-- postings

local find, byte, sub = string.find, string.byte, string.sub
local origins = {}
local pending = {}  -- by block and term: new entries, and the starts of those to be removed

local function number_of(origin)
  if not origins[origin] then
    local known = call('HGET', O, 'i' .. origin)
    if not known then
      known = num(call('HINCRBY', M, 'origins', 1))
      call('HSET', O, 'i' .. origin, known, 'n' .. known, origin)
    end
    origins[origin] = tonumber(known)
  end
  return origins[origin]
end
local function forget(origin)  -- when it has no items left
  local all = {s = {{origin, 0, -1}}, ft = 0, fm = 0}
  if view(origin) or count(all, 't') + count(all, 'm') > 0 then return end
  local known = call('HGET', O, 'i' .. origin)
  if known then call('HDEL', O, 'i' .. origin, 'n' .. known) end
  call('HDEL', Q, origin)
  origins[origin] = nil
end
local function without(value, width, head)  -- the entries without the one that starts with `head`
  local at = find(value, head, 1, true)
  while at and (at - 1) % width ~= 0 do at = find(value, head, at + 1, true) end
  return at and sub(value, 1, at - 1) .. sub(value, at + width) or value
end
local function changes_of(origin, block)
  local number = number_of(origin)
  local prefix = num(number) .. ':' .. num(block) .. ':'
  local found = pending[prefix]
  if not found then
    found = {number = number, block = block, prefix = prefix, added = {}, gone = {}}
    pending[prefix] = found
  end
  return found
end
local function post(origin, order, kind, counts)
  local added, entries = changes_of(origin, math.floor(order / 256)).added, {}
  local head = string.char(order % 256) .. kind
  for term, times in pairs(counts) do
    local packed = entries[times]
    if not packed then
      packed = head .. struct.pack('>I4', times)
      entries[times] = packed
    end
    local before = added[term]
    added[term] = before and before .. packed or packed
  end
end
local function unpost(origin, order, kind, counts)
  local changes, head = changes_of(origin, math.floor(order / 256)), string.char(order % 256) .. kind
  local added, gone = changes.added, changes.gone
  for term in pairs(counts) do
    local before = added[term]
    local after = before and without(before, 6, head)
    if after ~= before then
      added[term] = after
    else
      gone[term] = gone[term] or {}
      table.insert(gone[term], head)
    end
  end
end
local function write(key, width, changes, seen)  -- by term; for each changed one the entries before and after
  local terms, fields, begun, over = {}, {}, {}, {}
  for term in pairs(changes.added) do terms[#terms + 1] = term end
  for term in pairs(changes.gone) do
    if not changes.added[term] then terms[#terms + 1] = term end
  end
  for n, term in ipairs(terms) do fields[n] = changes.prefix .. term end
  local values = many('HMGET', key, fields)
  for n, term in ipairs(terms) do
    local before, after = values[n] or '', values[n] or ''
    local gone = changes.gone[term] or {}
    if #gone * width == #after then after = ''  -- each of them once
    else for _, head in ipairs(gone) do after = without(after, width, head) end end
    after = after .. (changes.added[term] or '')
    if after == '' then over[#over + 1] = fields[n]
    else begun[#begun + 1] = fields[n]; begun[#begun + 1] = after end
    if seen and #before ~= #after then seen(term, #before / width, #after / width) end
  end
  many('HSET', key, begun)
  many('HDEL', key, over)
end
local function counted_from()  -- conversations with lower numbers were created before terms were counted
  if format == '1' then return END end
  return tonumber(call('HGET', M, 'counted') or 0)
end
local function count_terms(more)  -- by number of a conversation: how many more items contain each term
  local low = counted_from()
  for number, by_term in pairs(more) do
    if number > low then
      local terms, fields, begun, over = {}, {}, {}, {}
      for term in pairs(by_term) do terms[#terms + 1] = term end
      for n, term in ipairs(terms) do fields[n] = num(number) .. '::' .. term end
      for n, before in ipairs(many('HMGET', P, fields)) do
        local after = tonumber(before or 0) + by_term[terms[n]]
        if after == 0 then over[#over + 1] = fields[n]
        else begun[#begun + 1] = fields[n]; begun[#begun + 1] = num(after) end
      end
      many('HSET', P, begun)
      many('HDEL', P, over)
    end
  end
end
local function settle()  -- writes the changes
  if next(pending) == nil then return end
  local listed, more = {}, {}
  for _, changes in pairs(pending) do
    local number, within = changes.number, math.floor(changes.number / 256)
    local entry = string.char(number % 256) .. struct.pack('>I4', changes.block)
    local list = listed[within] or {prefix = num(within) .. ':', added = {}, gone = {}}
    local by_term = more[number] or {}
    listed[within], more[number] = list, by_term
    write(P, 6, changes, function(term, before, after)
      by_term[term] = (by_term[term] or 0) + after - before
      if before == 0 then list.added[term] = (list.added[term] or '') .. entry
      elseif after == 0 then
        list.gone[term] = list.gone[term] or {}
        table.insert(list.gone[term], entry)
      end
    end)
  end
  for _, changes in pairs(listed) do write(T, 5, changes) end
  count_terms(more)
  pending = {}
  lifetime()  -- also of keys that this created
end

-- reading: blocks are {number, block, origin, first, last, start of their fields}, newest first; entries
-- are read in their packed form, and distinguished by their start within a block

local function blocks_shown(v)
  local found, floor = {}, math.min(v.ft, v.fm)
  for n = #v.s, 1, -1 do
    local origin, first, last = v.s[n][1], math.max(v.s[n][2], floor), v.s[n][3]
    local newest = last < 0 and v.o - 1 or last
    local known = first <= newest and call('HGET', O, 'i' .. origin)
    last = last < 0 and END or last
    if known then
      for block = math.floor(newest / 256), math.floor(first / 256), -1 do
        found[#found + 1] = {tonumber(known), block, origin, first, last, known .. ':' .. num(block) .. ':'}
      end
    end
  end
  return found
end
local function blocks_listed(term)
  local fields, found, names = {}, {}, {}
  for n = 0, math.floor(tonumber(call('HGET', M, 'origins') or 0) / 256) do
    fields[#fields + 1] = num(n) .. ':' .. term
  end
  for n, value in ipairs(many('HMGET', T, fields)) do
    for at = 1, value and #value or 0, 5 do
      local number = (n - 1) * 256 + value:byte(at)
      local block = struct.unpack('>I4', value:sub(at + 1, at + 4))
      found[#found + 1] = {number, block, false, 0, END, num(number) .. ':' .. num(block) .. ':'}
      names[#found] = 'n' .. num(number)
    end
  end
  for n, origin in ipairs(many('HMGET', O, names)) do found[n][3] = origin end
  table.sort(found, function(a, b) return a[2] > b[2] end)
  return found
end
local function is_shown(v, block, order, kind)
  if order < block[4] or order > block[5] then return false end
  return not v or order >= (kind == 116 and v.ft or v.fm)
end
local function take(found, block, value, v)  -- the starts of the shown entries of a block; their number
  local base, heads = block[2] * 256, {}
  for at = 1, #value, 6 do
    local order, kind = byte(value, at, at + 1)
    if is_shown(v, block, base + order, kind) then heads[#heads + 1] = sub(value, at, at + 1) end
  end
  if #heads > 0 then found[#found + 1] = {block, heads} end
  return #heads
end
local function is_whole(block, v)
  local first = block[2] * 256
  return block[4] <= first and first + 255 <= block[5] and not (v and (first < v.ft or first < v.fm))
end
local function total_of(v, blocks, term, low)  -- in whole conversations; nil if it is unknown
  local known, fields, total = {}, {}, 0
  if v and v.ft + v.fm > 0 then return nil end
  for _, block in ipairs(blocks) do
    local number = block[1]
    if number <= low or block[4] > 0 or block[5] < END then return nil end
    if not known[number] then
      known[number] = true
      fields[#fields + 1] = num(number) .. '::' .. term
    end
  end
  for _, value in ipairs(many('HMGET', P, fields)) do total = total + tonumber(value or 0) end
  return total
end
local function holders(v, term, limit, blocks, total)  -- their number; enough of the newest by block; values
  local found, values, taken, counted, past, low, step = {}, {}, 0, 0, nil, 1, 4
  while low <= #blocks do
    if total and (taken == total or (taken >= limit and blocks[low][2] < past)) then break end
    local fields = {}
    for n = low, math.min(low + step - 1, #blocks) do fields[#fields + 1] = blocks[n][6] .. term end
    for k, value in ipairs(many('HMGET', P, fields)) do
      local block = blocks[low + k - 1]
      values[block[6]] = value or ''
      if value then
        if taken < limit or block[2] >= past then
          local more = take(found, block, value, v)
          taken, counted, past = taken + more, counted + more, block[2]
        elseif not total then
          counted = counted + (is_whole(block, v) and #value / 6 or take({}, block, value, v))
        end
      end
    end
    low, step = low + step, math.min(step * 2, 512)
  end
  return total or counted, found, taken, values
end
"""
