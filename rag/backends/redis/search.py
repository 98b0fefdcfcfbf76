"""The calls that search turns and messages by words and citations, see `calls`."""

from __future__ import annotations

SEARCH = r"""
-- search: the newest matches of each term, each match once

local function searched(v)
  if not v then return call('ZCARD', S), tonumber(call('HGET', M, 'length') or 0) end
  local items, length, only = count(v, 't') + count(v, 'm'), 0, v.s[1]
  if #v.s == 1 and only[2] + v.ft + v.fm == 0 then
    return items, tonumber(call('HGET', M, 'of' .. only[1]) or 0)
  end
  for _, kind in ipairs({'t', 'm'}) do
    for _, item in ipairs(shown(v, kind)) do length = length + math.max(place(kind, item.id)[3], 0) end
  end
  return items, length
end
local function id_at(origin, kind, order)
  local prefix = piece(origin) .. kind .. wide(order)
  return call('ZRANGEBYLEX', S, '[' .. prefix, '[' .. prefix .. '\255', 'LIMIT', 0, 1)[1]:sub(#prefix + 1)
end
local function named(block, heads)  -- ids of the items in a block; neighbours are read at once
  local by_kind, ids = {t = {}, m = {}}, {}
  for _, head in ipairs(heads) do
    local orders = by_kind[sub(head, 2)]
    orders[#orders + 1] = byte(head)
  end
  for kind, orders in pairs(by_kind) do
    local base, low, high = block[2] * 256, math.min(256, unpack(orders)), math.max(-1, unpack(orders))
    if #orders * 6 < high - low then
      for _, order in ipairs(orders) do
        ids[string.char(order) .. kind] = id_at(block[3], kind, base + order)
      end
    elseif #orders > 0 then
      local first, last, skip = bounds({block[3], base + low, base + high}, kind)
      for _, member in ipairs(call('ZRANGEBYLEX', S, first, last)) do
        ids[string.char(tonumber(sub(member, skip + 1, skip + 16)) - base) .. kind] = sub(member, skip + 17)
      end
    end
  end
  return ids
end
local function newest(found, taken, limit)  -- at most the limit; at equal orders by their ids
  if taken <= limit then return found end
  local all, kept, by_block = {}, {}, {}
  for _, part in ipairs(found) do
    for _, head in ipairs(part[2]) do all[#all + 1] = {part[1], head, part[1][2] * 256 + byte(head)} end
  end
  table.sort(all, function(a, b) return a[3] > b[3] end)
  local last, same = all[limit][3], {}
  local function keep(item)
    local block = item[1]
    if not by_block[block] then
      by_block[block] = {}
      kept[#kept + 1] = {block, by_block[block]}
    end
    table.insert(by_block[block], item[2])
    limit = limit - 1
  end
  for _, item in ipairs(all) do
    if item[3] > last then keep(item)
    elseif item[3] == last then same[#same + 1] = item
    else break end
  end
  if #same > limit then
    for _, item in ipairs(same) do item[4] = id_at(item[1][3], sub(item[2], 2), item[3]) end
    table.sort(same, function(a, b) return a[4] < b[4] end)
  end
  for n = 1, limit do keep(same[n]) end
  return kept
end
local function matches_of(block, heads, terms, totals, values)  -- the items found, and each term's entries
  local ids, fields, names, lengths, entries = named(block, heads), {}, {}, {}, {}
  for n, head in ipairs(heads) do
    names[n] = ids[head]
    fields[n] = sub(head, 2) .. names[n]
  end
  for n, raw in ipairs(many('HMGET', X, fields)) do lengths[n] = struct.pack('>I4', open(raw)[3]) end
  for n, term in ipairs(terms) do
    entries[n] = values[n][block[6]] or (totals[n] > 0 and call('HGET', P, block[6] .. term)) or ''
  end
  return {block[3], num(block[2] * 256), table.concat(heads), table.concat(lengths), names, entries}
end
function ops.match(where, given, limit, at_once, ends)  -- first the unread items up to these ends, or to now
  local id, terms, order, known, totals, values = cjson.decode(where)[1], cjson.decode(given), {}, {}, {}, {}
  local v = id and view(id)
  if id and not v then return {'gone'} end
  if call('HLEN', Q) > 0 then
    local listed, before = ends and cjson.decode(ends) or ends_now(), {}
    for _, each in ipairs(listed) do before[each[1]] = each[2] end
    local waiting = unread(tonumber(at_once), before)
    if #waiting > 0 then return {'unread', {waiting, listed}} end
  end
  limit = tonumber(limit)
  local here, low = v and blocks_shown(v), counted_from()
  for n, term in ipairs(terms) do
    local found, taken
    local blocks = here or blocks_listed(term)
    totals[n], found, taken, values[n] = holders(v, term, limit, blocks, total_of(v, blocks, term, low))
    for _, part in ipairs(newest(found, taken, limit)) do
      local block = known[part[1][6]]
      if not block then
        block = {part[1], {}, {}}
        known[part[1][6]] = block
        order[#order + 1] = block
      end
      for _, head in ipairs(part[2]) do
        if not block[3][head] then
          block[3][head] = true
          table.insert(block[2], head)
        end
      end
    end
  end
  for n, block in ipairs(order) do order[n] = matches_of(block[1], block[2], terms, totals, values) end
  local items, length = searched(v)
  return {'ok', {items, length, totals, order}}
end
function ops.citing(given)
  local asked, found, ids = cjson.decode(given), {}, {}
  local low = asked.path and '[' .. piece(asked.path) or '-'
  local high = asked.path and low .. '\255' or '+'
  for _, member in ipairs(call('ZRANGEBYLEX', D, low, high)) do
    local parts, at = {}, 0
    for n = 1, 3 do
      local _, stop, size = member:find('^(%d+):', at + 1)
      at = stop + tonumber(size)
      parts[n] = member:sub(stop + 1, at)
    end
    local id = member:sub(at + 1)
    local meant = not asked.location or parts[2] == asked.location
    if meant and (not asked.blob or parts[3] == asked.blob) and not found[id] then
      found[id] = true
      ids[#ids + 1] = id
    end
  end
  return {'ok', ids}
end
"""
