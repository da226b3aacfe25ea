const { Lock } = require('../src/lock');

describe('lock', () => {
  test('starts at the lower level', () => {
    expect(new Lock(1, 4).level).toBe(1);
  });

  test('holds a gate shut against the water', () => {
    const lock = new Lock(1, 4);
    expect(() => lock.openGate('upper')).toThrow('held shut');
  });

  test('lifts a boat', () => {
    const lock = new Lock(1, 4);
    lock.fill();
    lock.openGate('upper');
    expect(lock.open).toBe('upper');
  });

  test('refuses levels the wrong way round', () => {
    expect(() => new Lock(4, 1)).toThrow(RangeError);
  });

  test.todo('leaks a little');
});
