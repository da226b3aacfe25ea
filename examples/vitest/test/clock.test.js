import { expect, test } from 'vitest';
import { after } from '../src/clock.js';

test('waits as long as it was asked to', async () => {
  await expect(after(5)).resolves.toBe(5);
});

test.skip('waits for high water', () => {});
