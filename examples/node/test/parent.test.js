import assert from 'node:assert/strict';
import test from 'node:test';
import { route } from '../lib/route.js';

test('both directions are as long', async (t) => {
  const canals = [['a', 'b', 2]];
  await t.test('there', () => assert.equal(route(canals, 'a', 'b').length, 2));
  await t.test('back', () => assert.equal(route(canals, 'b', 'a').length, 2));
});

test('a frozen canal', { skip: 'not in summer' }, () => {});
