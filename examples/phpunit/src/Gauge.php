<?php

/** A water gauge that tells floods from droughts. */
final class Gauge
{
    /** @var float[] */
    private array $readings = [];

    public function read(float $metres): void
    {
        if ($metres < 0) {
            throw new InvalidArgumentException('water below the bed');
        }
        $this->readings[] = $metres;
    }

    public function mean(): ?float
    {
        return $this->readings ? array_sum($this->readings) / count($this->readings) : null;
    }

    public function state(): string
    {
        $mean = $this->mean() ?? 0.0;
        return $mean > 3 ? 'flood' : ($mean < 1 ? 'drought' : 'fair');
    }
}
