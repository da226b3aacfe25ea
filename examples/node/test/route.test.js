import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { route } from '../lib/route.js';

const canals = [['mill', 'lock', 3], ['lock', 'quay', 4], ['mill', 'quay', 9], ['pond', 'pond', 1]];

describe('route', () => {
  it('takes the shorter way round', () => {
    assert.deepEqual(route(canals, 'mill', 'quay'), { places: ['mill', 'lock', 'quay'], length: 7 });
  });

  it('stays where it is', () => {
    assert.deepEqual(route(canals, 'mill', 'mill'), { places: ['mill'], length: 0 });
  });

  describe('without a way', () => {
    it('says so', () => assert.equal(route(canals, 'mill', 'pond'), null));
  });
});
