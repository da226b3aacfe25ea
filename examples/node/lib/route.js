// The shortest way through a net of canals, by Dijkstra's method on a handful of places.
export function route(canals, from, to) {
  const best = new Map([[from, { length: 0, via: null }]]);
  const open = new Set([from]);
  while (open.size > 0) {
    const here = [...open].reduce((a, b) => (best.get(a).length <= best.get(b).length ? a : b));
    open.delete(here);
    if (here === to) break;
    for (const [a, b, length] of canals) {
      const there = a === here ? b : b === here ? a : null;
      if (there === null) continue;
      const total = best.get(here).length + length;
      if (total < (best.get(there)?.length ?? Infinity)) {
        best.set(there, { length: total, via: here });
        open.add(there);
      }
    }
  }
  if (!best.has(to)) return null;
  const places = [];
  for (let at = to; at !== null; at = best.get(at).via) places.unshift(at);
  return { places, length: best.get(to).length };
}
