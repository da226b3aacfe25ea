const { toll } = require('../src/toll');

test.each([
  [10, 'day', 20],
  [10, 'night', 30],
  [9.5, 'day', 20],
])('%d metres by %s cost %d', (metres, when, cost) => {
  expect(toll(metres, when)).toBe(cost);
});

test('an unknown hour has no rate', () => {
  expect(() => toll(1, 'dusk')).toThrow('no rate for dusk');
});
