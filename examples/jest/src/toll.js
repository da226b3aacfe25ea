// What a boat pays: by its length, more at night.
const rate = { day: 2, night: 3 };

function toll(metres, when = 'day') {
  if (!(when in rate)) throw new TypeError(`no rate for ${when}`);
  return Math.ceil(metres) * rate[when];
}

module.exports = { toll };
